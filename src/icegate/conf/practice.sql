-- What dbt does on a lake: for Java's class archive, and for a server to be warm when it is ready.
create schema if not exists a;

create or replace view a.v as
select id, id % 3 as kind, cast(id as string) as name from range(99);

create or replace table a.t
using iceberg partitioned by (kind) tblproperties ('write.format.default' = 'parquet')
as select * from a.v;

create or replace table a.u using iceberg as
select
    kind,
    count(*) as n,
    count(distinct name) as d,
    max(name) as m,
    sum(cast(id as decimal(18, 2))) as s
from a.t
group by kind;

create or replace temporary view w as
select t.*, u.n from a.t as t left join a.u as u on t.kind = u.kind where t.id > 5;

insert into a.t select id, kind, name from w where id > 90;

insert overwrite a.t select id, kind, name from w;

delete from a.t where id = 7;

alter table a.t add columns (extra string);

alter table a.t set tblproperties ('comment' = 'x');

show tables in a;

show views in a;

select kind, row_number() over (partition by kind order by id) as r from a.t limit 5;

drop view a.v

-- What dbt does on a lake, so that Java's class archive holds the classes that a real run needs.
create schema if not exists lake.a;

create or replace view lake.a.v as
select id, id % 3 as kind, cast(id as string) as name from range(99);

create or replace table lake.a.t
using iceberg partitioned by (kind) tblproperties ('write.format.default' = 'parquet')
as select * from lake.a.v;

create or replace table lake.a.u using iceberg as
select
    kind,
    count(*) as n,
    count(distinct name) as d,
    max(name) as m,
    sum(cast(id as decimal(18, 2))) as s
from lake.a.t
group by kind;

create or replace temporary view w as
select t.*, u.n from lake.a.t as t left join lake.a.u as u on t.kind = u.kind where t.id > 5;

insert into lake.a.t select id, kind, name from w where id > 90;

merge into lake.a.t as t
using (select distinct id, kind, name from w where id > 80) as s on t.id = s.id
when matched then update set name = s.name
when not matched then insert (id, kind, name) values (s.id, s.kind, s.name);

insert overwrite lake.a.t select id, kind, name from w;

delete from lake.a.t where id = 7;

alter table lake.a.t add columns (extra string);

alter table lake.a.t set tblproperties ('comment' = 'x');

show tables in lake.a;

show views in lake.a;

select kind, row_number() over (partition by kind order by id) as r from lake.a.t limit 5;

drop view lake.a.v

-- Which supplier has which part, at what cost: read as they were generated, nothing else.
select
    ps_partkey,
    ps_suppkey,
    ps_availqty,
    ps_supplycost,
    ps_comment
from parquet.`{{ var('files') }}/partsupp.parquet`

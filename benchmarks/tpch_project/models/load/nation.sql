-- The 25 nations: read as they were generated, nothing else.
select
    n_nationkey,
    n_name,
    n_regionkey,
    n_comment
from parquet.`{{ var('files') }}/nation.parquet`

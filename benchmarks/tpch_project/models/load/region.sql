-- The five regions: read as they were generated, nothing else.
select
    r_regionkey,
    r_name,
    r_comment
from parquet.`{{ var('files') }}/region.parquet`

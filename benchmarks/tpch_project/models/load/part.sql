-- What is sold: read as they were generated, nothing else.
select
    p_partkey,
    p_name,
    p_mfgr,
    p_brand,
    p_type,
    p_size,
    p_container,
    p_retailprice,
    p_comment
from parquet.`{{ var('files') }}/part.parquet`

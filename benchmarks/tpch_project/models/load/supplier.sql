-- Those who supply parts: read as they were generated, nothing else.
select
    s_suppkey,
    s_name,
    s_address,
    s_nationkey,
    s_phone,
    s_acctbal,
    s_comment
from parquet.`{{ var('files') }}/supplier.parquet`

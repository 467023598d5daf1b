-- Those who order: read as they were generated, nothing else.
select
    c_custkey,
    c_name,
    c_address,
    c_nationkey,
    c_phone,
    c_acctbal,
    c_mktsegment,
    c_comment
from parquet.`{{ var('files') }}/customer.parquet`

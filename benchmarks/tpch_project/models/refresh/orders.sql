{{ config(materialized='incremental', incremental_strategy='insert_overwrite',
    partition_by=['truncate(' ~ (600000 * var('scale')) | int ~ ', o_orderkey)']) }}
-- Orders: the first run loads them, each later one is both refresh functions. Orders use 8 of each
-- 32 keys, so the n-th one has the key n div 8 * 32 + n % 8, and 8 more is a key that none has.
-- RF1 inserts the first orders, 1,500 for each scale factor, under those keys; RF2 deletes the same
-- orders under their own. Both are one overwrite of the partition where they lie: of the
-- strategies of stock dbt-spark it is the one that takes rows away by key, and a hook, which could
-- as well, would write past the gate. It may run twice: its rows are made again from the files.
{% set refreshed = (1500 * var('scale')) | int %}
select
    o_orderkey{{ ' + 8' if is_incremental() }} as o_orderkey,
    o_custkey,
    o_orderstatus,
    o_totalprice,
    o_orderdate,
    o_orderpriority,
    o_clerk,
    o_shippriority,
    o_comment
from parquet.`{{ var('files') }}/orders.parquet`
{% if is_incremental() %}
    where o_orderkey div 32 * 8 + o_orderkey % 32 <= {{ refreshed }}
    union all
    select
        o_orderkey,
        o_custkey,
        o_orderstatus,
        o_totalprice,
        o_orderdate,
        o_orderpriority,
        o_clerk,
        o_shippriority,
        o_comment
    from {{ this }}
    where
        o_orderkey < {{ (600000 * var('scale')) | int }}
        and o_orderkey % 32 < 8
        and o_orderkey div 32 * 8 + o_orderkey % 32 > {{ refreshed }}
{% endif %}

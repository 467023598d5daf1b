{{ config(materialized='incremental', incremental_strategy='insert_overwrite',
    partition_by=['truncate(' ~ (600000 * var('scale')) | int ~ ', l_orderkey)']) }}
-- Lines of orders, loaded, inserted and deleted with their orders, as orders.sql says.
{% set refreshed = (1500 * var('scale')) | int %}
select
    l_orderkey{{ ' + 8' if is_incremental() }} as l_orderkey,
    l_partkey,
    l_suppkey,
    l_linenumber,
    l_quantity,
    l_extendedprice,
    l_discount,
    l_tax,
    l_returnflag,
    l_linestatus,
    l_shipdate,
    l_commitdate,
    l_receiptdate,
    l_shipinstruct,
    l_shipmode,
    l_comment
from parquet.`{{ var('files') }}/lineitem.parquet`
{% if is_incremental() %}
    where l_orderkey div 32 * 8 + l_orderkey % 32 <= {{ refreshed }}
    union all
    select
        l_orderkey,
        l_partkey,
        l_suppkey,
        l_linenumber,
        l_quantity,
        l_extendedprice,
        l_discount,
        l_tax,
        l_returnflag,
        l_linestatus,
        l_shipdate,
        l_commitdate,
        l_receiptdate,
        l_shipinstruct,
        l_shipmode,
        l_comment
    from {{ this }}
    where
        l_orderkey < {{ (600000 * var('scale')) | int }}
        and l_orderkey % 32 < 8
        and l_orderkey div 32 * 8 + l_orderkey % 32 > {{ refreshed }}
{% endif %}

{{ config(unique_key='order_id') }}

with changes as (
    select
        raw.*,
        row_number() over (partition by raw.order_id order by raw.updated_at desc) as age
    from {{ ref('raw_orders') }} as raw
    {% if is_incremental() %}
        -- All changes of the orders that have a new one, which may have come late.
        where
            raw.order_id in (
                select fresh.order_id
                from {{ ref('raw_orders') }} as fresh
                where
                    fresh.ingested_at > (
                        select coalesce(max(merged.ingested_at), timestamp '1970-01-01')
                        from {{ this }} as merged
                    )
            )
    {% endif %}
)

select
    order_id,
    product,
    quantity,
    unit_price,
    quantity * unit_price as order_total,
    cast(ordered_at as date) as ordered_on,
    updated_at,
    ingested_at
from changes
where age = 1

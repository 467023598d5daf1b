{{ config(
    unique_key='order_item_id', partition_by=['months(ordered_at)'], sort_by=['product_id']
) }}

-- A newer version of an order brings all of its lines, so lines held here that it lacks are gone.
-- A merge can't delete: they stay, marked.
with changed_orders as (
    select *
    from {{ ref('curated_orders') }} as orders
    {% if is_incremental() %}
        where
            orders.ingested_at >= {{ high_water_mark('ingested_at', var('late_arrival_days')) }}
            and {{ newer_than_held('orders', 'order_id', ['updated_at', 'loaded_from']) }}
    {% endif %}
),

lines as (
    select
        concat(order_id, '-', item_index + 1) as order_item_id,
        order_id,
        item_index + 1 as line_number,
        item.product_id,
        ordered_at,
        order_status,
        currency,
        item.quantity,
        item.unit_price,
        item.discount as discount_share,
        {{ line_amount('item') }} as line_amount,
        updated_at,
        loaded_from,
        ingested_at
    from changed_orders
        lateral view posexplode(items) exploded as item_index, item
),

{% if is_incremental() %}
    gone_lines as (
        select
            held.order_item_id,
            held.order_id,
            held.line_number,
            held.product_id,
            held.ordered_at,
            held.order_status,
            held.currency,
            held.quantity,
            held.unit_price,
            held.discount_share,
            held.line_amount,
            held.line_amount_usd,
            changed_orders.updated_at,
            changed_orders.loaded_from,
            changed_orders.ingested_at,
            true as is_deleted
        from {{ this }} as held
        inner join changed_orders on held.order_id = changed_orders.order_id
        left anti join lines on held.order_item_id = lines.order_item_id
        where not held.is_deleted
    ),
{% endif %}

current_lines as (
    select
        lines.* except (updated_at, loaded_from, ingested_at),
        try_cast(round(lines.line_amount * rates.usd_per_unit, 2) as decimal(12, 2))
            as line_amount_usd,
        lines.updated_at,
        lines.loaded_from,
        lines.ingested_at,
        false as is_deleted
    from lines
    left join {{ ref('exchange_rates') }} as rates on lines.currency = rates.currency
)

select * from current_lines
{% if is_incremental() %}
    union all
    select * from gone_lines
{% endif %}

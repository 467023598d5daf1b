{{ config(unique_key='order_id', partition_by=['months(ordered_at)'], sort_by=['customer_id']) }}

-- Changes arrive late and in any order: each run rereads a few days of arrivals and keeps what is
-- newer than the row held here.
with changes as (
    select *
    from {{ ref('raw_orders') }} as arrived
    where
        arrived.order_id is not null
        {% if is_incremental() %}
            and arrived.ingested_at
            >= {{ high_water_mark('ingested_at', var('late_arrival_days')) }}
            and {{ newer_than_held('arrived', 'order_id', ['updated_at', 'loaded_from']) }}
        {% endif %}
),

latest as (
    {{ latest_per_key('changes', 'order_id', ['updated_at', 'loaded_from']) }}
),

-- One line that can't be priced leaves the whole order without a price: null, never too low.
totalled as (
    select
        *,
        upper(trim(currency)) as currency_code,
        aggregate(
            items,
            cast(0 as decimal(12, 2)),
            (total, item) -> try_cast(total + {{ line_amount('item') }} as decimal(12, 2))
        ) as subtotal_amount,
        aggregate(
            items,
            cast(0 as decimal(12, 2)),
            (total, item) -> try_cast(
                total + round(item.quantity * item.unit_price * item.discount, 2) as decimal(12, 2)
            )
        ) as discount_amount
    from latest
),

priced as (
    select
        *,
        try_cast(round(subtotal_amount * {{ var('tax_percent') }} / 100, 2) as decimal(12, 2))
            as tax_amount,
        cast(
            case
                when subtotal_amount > {{ var('free_shipping_above_order_currency') }} then 0
                when subtotal_amount is not null then {{ var('shipping_fee_order_currency') }}
            end as decimal(10, 2)
        ) as shipping_cost
    from totalled
)

select
    priced.order_id,
    priced.customer_id,
    lower(trim(priced.order_status)) as order_status,
    lower(trim(priced.payment_method)) as payment_method,
    priced.currency_code as currency,
    priced.ordered_at,
    priced.required_at,
    priced.shipped_at,
    priced.delivered_at,
    size(priced.items) as item_count,
    priced.total_amount,
    priced.subtotal_amount,
    priced.discount_amount,
    priced.tax_amount,
    priced.shipping_cost,
    try_cast(
        priced.subtotal_amount + priced.tax_amount + priced.shipping_cost as decimal(12, 2)
    ) as net_amount,
    try_cast(
        round(
            (priced.subtotal_amount + priced.tax_amount + priced.shipping_cost)
            * rates.usd_per_unit, 2
        ) as decimal(12, 2)
    ) as net_amount_usd,
    priced.shipping_address['city'] as shipping_city,
    priced.shipping_address['state'] as shipping_state,
    priced.shipping_address['country'] as shipping_country,
    priced.items,
    priced.updated_at,
    priced.loaded_from,
    priced.ingested_at
from priced
left join {{ ref('exchange_rates') }} as rates on priced.currency_code = rates.currency

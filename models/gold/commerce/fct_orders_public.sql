{{ config(tags=['public'], sort_by=['ordered_on']) }}

-- For people outside: nothing in it names a customer, and what could tell one from others is shown
-- where enough customers share it.
with coarse as (
    select
        {{ keyed_hash('order_id', scope='order') }} as order_key,
        {{ keyed_hash('customer_id', scope='customer') }} as customer_key,
        {{ date_shift('ordered_on', 'customer_id', var('public_shift_days')) }} as ordered_on,
        {{ date_shift('delivered_at', 'customer_id', var('public_shift_days')) }} as delivered_on,
        customer_segment,
        {{ generalise(
            'shipping_country', regions={'USA': 'Americas', 'GBR': 'Europe', 'DEU': 'Europe'}
        ) }} as shipping_region,
        payment_method,
        is_cancelled,
        item_count,
        {{ generalise('net_amount_usd', width=50) }} as net_amount_from_usd
    from {{ ref('fct_orders') }}
)

{% set group = ['customer_segment', 'shipping_region'] -%}
select
    order_key,
    customer_key,
    ordered_on,
    delivered_on,
    {{ suppress('customer_segment', group, var('public_k'), 'customer_key') }} as customer_segment,
    {{ suppress('shipping_region', group, var('public_k'), 'customer_key') }} as shipping_region,
    payment_method,
    is_cancelled,
    item_count,
    cast(net_amount_from_usd as int) as net_amount_from_usd
from coarse

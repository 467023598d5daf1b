{{ config(partition_by=['months(ordered_at)'], sort_by=['ordered_at']) }}

select
    orders.order_id,
    orders.customer_id,
    customers.full_name as customer_name,
    customers.email as customer_email,
    customers.customer_segment,
    orders.order_status,
    orders.order_status = 'cancelled' as is_cancelled,
    orders.payment_method,
    orders.currency,
    orders.ordered_at,
    cast(orders.ordered_at as date) as ordered_on,
    orders.required_at,
    orders.shipped_at,
    orders.delivered_at,
    coalesce(orders.delivered_at > orders.required_at, false) as is_late,
    orders.item_count,
    orders.total_amount,
    orders.discount_amount,
    orders.tax_amount,
    orders.shipping_cost,
    orders.net_amount,
    orders.net_amount_usd,
    orders.shipping_city,
    orders.shipping_state,
    orders.shipping_country
from {{ ref('curated_orders') }} as orders
left join {{ ref('curated_customers') }} as customers on orders.customer_id = customers.customer_id

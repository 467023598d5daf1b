{{ config(
    materialized='history',
    unique_key='order_id',
    track_columns=['order_status', 'payment_method', 'subtotal_amount', 'discount_amount']
) }}

select
    order_id,
    customer_id,
    order_status,
    payment_method,
    currency,
    subtotal_amount,
    discount_amount,
    updated_at
from {{ ref('curated_orders') }}

{{ config(sort_by=['customer_id']) }}

select
    customer_id,
    email,
    full_name,
    phone,
    city,
    state,
    country,
    source_system,
    customer_segment,
    lifetime_value_usd,
    total_orders,
    first_ordered_at,
    last_ordered_at,
    is_active,
    created_at,
    updated_at
from {{ ref('curated_customers') }}

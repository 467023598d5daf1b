-- An order is placed, then shipped, then delivered.
select
    order_id,
    ordered_at,
    shipped_at,
    delivered_at
from {{ ref('curated_orders') }}
where
    shipped_at < ordered_at
    or delivered_at < ordered_at
    or delivered_at < shipped_at

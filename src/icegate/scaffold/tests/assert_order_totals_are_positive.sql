-- A total of nothing or less is a mistake upstream.
select
    order_id,
    order_total
from {{ ref('curated_orders') }}
where order_total <= 0

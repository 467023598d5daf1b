{{ config(partition_by=['months(ordered_at)'], sort_by=['ordered_at']) }}

select
    items.order_item_id,
    items.order_id,
    items.line_number,
    items.product_id,
    products.product_name,
    products.category,
    items.order_status = 'cancelled' as is_cancelled,
    items.ordered_at,
    cast(items.ordered_at as date) as ordered_on,
    items.currency,
    items.quantity,
    items.unit_price,
    items.discount_share,
    items.line_amount,
    items.line_amount_usd
from {{ ref('curated_order_items') }} as items
left join {{ ref('curated_products') }} as products on items.product_id = products.product_id
where not items.is_deleted

{{ config(sort_by=['category', 'product_id']) }}

select
    product_id,
    sku,
    product_name,
    description,
    category,
    subcategory,
    price_usd,
    cost_usd,
    cast(try_divide((price_usd - cost_usd) * 100, price_usd) as decimal(7, 2)) as margin_pct,
    stock_quantity,
    stock_quantity > 0 as is_in_stock,
    color,
    weight_kg,
    warranty_months,
    created_at,
    updated_at
from {{ ref('curated_products') }}

{{ config(unique_key='product_id', sort_by=['category', 'product_id']) }}

-- Attributes are free text at the source ("12.50 kg", "24 months"), so a number is taken where the
-- text has one.
with changes as (
    select *
    from {{ ref('raw_products') }} as arrived
    where
        arrived.product_id is not null
        {% if is_incremental() %}
            and arrived.ingested_at
            >= {{ high_water_mark('ingested_at', var('late_arrival_days')) }}
            and {{ newer_than_held('arrived', 'product_id', ['updated_at', 'loaded_from']) }}
        {% endif %}
),

latest as (
    {{ latest_per_key('changes', 'product_id', ['updated_at', 'loaded_from']) }}
)

select
    product_id,
    upper(trim(sku)) as sku,
    trim(product_name) as product_name,
    description,
    trim(category) as category,
    trim(subcategory) as subcategory,
    price as price_usd,
    cost as cost_usd,
    stock_quantity,
    attributes['color'] as color,
    try_cast(
        regexp_extract(attributes['weight'], '([0-9.]+) *kg', 1) as decimal(10, 2)
    ) as weight_kg,
    try_cast(regexp_extract(attributes['warranty'], '([0-9]+)', 1) as int) as warranty_months,
    created_at,
    updated_at,
    loaded_from,
    ingested_at
from latest

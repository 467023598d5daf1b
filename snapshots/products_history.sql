{% snapshot products_history %}

{{ config(unique_key='product_id') }}

with versions as (
    select
        product_id,
        sku,
        product_name,
        category,
        subcategory,
        price,
        cost,
        stock_quantity,
        created_at,
        updated_at,
        loaded_from
    from {{ ref('raw_products') }}
    where product_id is not null and updated_at is not null
)

{{ latest_per_key('versions', 'product_id', ['updated_at', 'loaded_from']) }}

{% endsnapshot %}

-- One row for each change of a product: renamed, nothing else; Parquet brings the types.
with landed as (
    select
        *,
        {{ rejected_values({'product_id': ['product_id', 'key']}) }} as rejected_values
    from {{ source('shop', 'products') }} as products
    where {{ not_yet_loaded(source('shop', 'products')) }}
)

select
    nullif(trim(product_id), '') as product_id,
    sku,
    name as product_name,
    description,
    category,
    subcategory,
    price,
    cost,
    stock_quantity,
    attributes,
    created_at,
    updated_at,
    nullif(rejected_values, array()) as rejected_values,
    case when size(rejected_values) > 0 then to_json(struct(product_id, sku, name)) end as raw_text,
    substring_index(_metadata.file_path, '/', -2) as loaded_from,
    current_timestamp() as ingested_at
from landed

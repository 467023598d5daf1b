-- One row for each change of an order: typed, nothing else. What doesn't parse becomes null.
select
    landed.order_id,
    landed.product,
    try_cast(landed.quantity as int) as quantity,
    try_cast(landed.unit_price as decimal(10, 2)) as unit_price,
    try_cast(landed.ordered_at as timestamp) as ordered_at,
    try_cast(landed.updated_at as timestamp) as updated_at,
    current_timestamp() as ingested_at
from {{ ref('landed_orders') }} as landed
{% if is_incremental() %}
    -- Each change once, so that a second run adds nothing.
    where
        not exists (
            select 1
            from {{ this }} as loaded
            where
                loaded.order_id = landed.order_id
                and loaded.updated_at = try_cast(landed.updated_at as timestamp)
        )
{% endif %}

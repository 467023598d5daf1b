{#- What had arrived when a month began, for questions about its closing. -#}
{{ config(post_hook="{{ create_tag(this, 'month_' ~ run_started_at.strftime('%Y_%m'), 400) }}") }}

-- One row for each change of an order: renamed and typed, nothing else.
with landed as (
    select
        *,
        concat(
            {{ rejected_values({
                'order_id': ['order_id', 'key'],
                'customer_id': ['customer_id', 'key'],
                'ordered_at': ['order_date', 'timestamp'],
                'required_at': ['required_date', 'timestamp'],
                'shipped_at': ['shipped_date', 'timestamp'],
                'delivered_at': ['delivered_date', 'timestamp'],
                'total_amount': ['total_amount', 'decimal(12, 2)'],
                'updated_at': ['updated_at', 'timestamp'],
            }) }},
            flatten(transform(coalesce(items, array()), item -> array_compact(array(
                {{ rejected_value('items.product_id', 'item.product_id', 'key') }},
                {{ rejected_value('items.quantity', 'item.quantity', 'int') }},
                {{ rejected_value('items.unit_price', 'item.unit_price', 'decimal(10, 2)') }},
                {{ rejected_value('items.discount', 'item.discount', 'decimal(5, 4)') }}
            ))))
        ) as rejected_values
    from {{ source('shop', 'orders') }} as orders
    where {{ not_yet_loaded(source('shop', 'orders')) }}
)

select
    nullif(trim(order_id), '') as order_id,
    nullif(trim(customer_id), '') as customer_id,
    order_status,
    try_cast(order_date as timestamp) as ordered_at,
    try_cast(required_date as timestamp) as required_at,
    try_cast(shipped_date as timestamp) as shipped_at,
    try_cast(delivered_date as timestamp) as delivered_at,
    transform(
        items,
        item -> named_struct(
            'product_id', nullif(trim(item.product_id), ''),
            'quantity', try_cast(item.quantity as int),
            'unit_price', try_cast(item.unit_price as decimal(10, 2)),
            'discount', try_cast(item.discount as decimal(5, 4))
        )
    ) as items,
    shipping_address,
    payment_method,
    currency,
    try_cast(total_amount as decimal(12, 2)) as total_amount,
    try_cast(updated_at as timestamp) as updated_at,
    nullif(rejected_values, array()) as rejected_values,
    case when size(rejected_values) > 0 then _raw_text end as raw_text,
    substring_index(_metadata.file_path, '/', -2) as loaded_from,
    current_timestamp() as ingested_at
from landed

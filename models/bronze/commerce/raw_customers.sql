-- One row for each change of a customer: renamed and typed, nothing else.
with landed as (
    select
        *,
        {{ rejected_values({
            'customer_id': ['customer_id', 'key'],
            'created_at': ['created_at', 'timestamp'],
            'updated_at': ['updated_at', 'timestamp'],
        }) }} as rejected_values
    from {{ source('shop', 'customers') }} as customers
    where {{ not_yet_loaded(source('shop', 'customers')) }}
)

select
    nullif(trim(customer_id), '') as customer_id,
    email,
    first_name,
    last_name,
    phone,
    address,
    source_system,
    try_cast(created_at as timestamp) as created_at,
    try_cast(updated_at as timestamp) as updated_at,
    nullif(rejected_values, array()) as rejected_values,
    case when size(rejected_values) > 0 then _raw_text end as raw_text,
    substring_index(_metadata.file_path, '/', -2) as loaded_from,
    current_timestamp() as ingested_at
from landed

-- One row for each measurement of a room: renamed and typed, nothing else.
with landed as (
    select
        *,
        {{ rejected_values({
            'room_type': ['room_type', 'key'],
            'measured_at': ['measured_at', 'timestamp'],
            'temperature_c': ['current_temperature', 'finite'],
            'humidity_pct': ['current_humidity', 'finite'],
        }) }} as rejected_values
    from {{ source('sensors', 'room_data') }} as room_data
    where {{ not_yet_loaded(source('sensors', 'room_data')) }}
)

select
    nullif(trim(room_type), '') as room_type,
    try_cast(measured_at as timestamp) as measured_at,
    {{ finite('current_temperature') }} as temperature_c,
    {{ finite('current_humidity') }} as humidity_pct,
    nullif(rejected_values, array()) as rejected_values,
    case when size(rejected_values) > 0 then _raw_text end as raw_text,
    substring_index(_metadata.file_path, '/', -2) as loaded_from,
    current_timestamp() as ingested_at
from landed

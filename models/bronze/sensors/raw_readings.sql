{#- Gateways deliver small files: they are written together from a hundred on, and the rest is done
    on the first of a month. -#}
{{ config(post_hook=[
    "{{ compact(this, min_files=100) }}",
    "{{ rewrite_manifests(this) if run_started_at.day == 1 }}",
    "{{ expire_snapshots(this) if run_started_at.day == 1 }}",
]) }}

-- One row for each reading of a device: renamed, nothing else; Parquet brings the types.
with landed as (
    select
        *,
        {{ rejected_values({
            'device_id': ['device_id', 'key'],
            'temperature_c': ['temperature_c', 'finite'],
            'humidity_pct': ['humidity_pct', 'finite'],
            'battery_pct': ['battery_pct', 'finite'],
            'latitude': ['latitude', 'finite'],
            'longitude': ['longitude', 'finite'],
        }) }} as rejected_values
    from {{ source('sensors', 'readings') }} as readings
    where {{ not_yet_loaded(source('sensors', 'readings')) }}
)

select
    nullif(trim(device_id), '') as device_id,
    reading_at,
    {{ finite('temperature_c') }} as temperature_c,
    {{ finite('humidity_pct') }} as humidity_pct,
    {{ finite('battery_pct') }} as battery_pct,
    {{ finite('latitude') }} as latitude,
    {{ finite('longitude') }} as longitude,
    nullif(rejected_values, array()) as rejected_values,
    case when size(rejected_values) > 0 then to_json(struct(device_id, reading_at)) end as raw_text,
    substring_index(_metadata.file_path, '/', -2) as loaded_from,
    current_timestamp() as ingested_at
from landed

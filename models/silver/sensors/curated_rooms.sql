{{ config(unique_key='room_measurement_id', sort_by=['room_type', 'measured_at']) }}

-- A measurement may be delivered again, corrected: the later file wins.
with changes as (
    select
        {{ dbt_utils.generate_surrogate_key(['room_type', 'measured_at']) }} as room_measurement_id,
        *
    from {{ ref('raw_room_data') }}
    where
        room_type is not null
        and measured_at is not null
        {% if is_incremental() %}
            and ingested_at >= {{ high_water_mark('ingested_at', var('late_arrival_days')) }}
        {% endif %}
),

latest as (
    {{ latest_per_key('changes', 'room_measurement_id', ['loaded_from']) }}
)

select
    room_measurement_id,
    lower(trim(room_type)) as room_type,
    measured_at,
    temperature_c,
    humidity_pct,
    loaded_from,
    ingested_at
from latest
{% if is_incremental() %}
    where {{ newer_than_held('latest', 'room_measurement_id', ['loaded_from']) }}
{% endif %}

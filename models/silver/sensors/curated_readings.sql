{#- A delivery corrects few of many rows: they are marked, and compacted before it's published. -#}
{{ config(
    unique_key='reading_id', partition_by=['months(reading_at)'], sort_by=['device_id', 'reading_at'],
    tblproperties=merge_on_read('serializable'), post_hook="{{ compact(this) }}"
) }}

-- A gateway may deliver a reading again, corrected: the later file wins.
with changes as (
    select
        {{ dbt_utils.generate_surrogate_key(['device_id', 'reading_at']) }} as reading_id,
        *
    from {{ ref('raw_readings') }}
    where
        device_id is not null
        and reading_at is not null
        {% if is_incremental() %}
            and ingested_at >= {{ high_water_mark('ingested_at', var('late_arrival_days')) }}
        {% endif %}
),

latest as (
    {{ latest_per_key('changes', 'reading_id', ['loaded_from']) }}
)

select
    reading_id,
    device_id,
    reading_at,
    temperature_c,
    humidity_pct,
    battery_pct,
    latitude,
    longitude,
    loaded_from,
    ingested_at
from latest
{% if is_incremental() %}
    where {{ newer_than_held('latest', 'reading_id', ['loaded_from']) }}
{% endif %}

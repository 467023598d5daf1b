{{ config(sort_by=['room_type', 'measured_on']) }}

select
    room_type,
    cast(measured_at as date) as measured_on,
    count(*) as measurements_count,
    round(avg(temperature_c), 2) as temperature_avg_c,
    min(temperature_c) as temperature_min_c,
    max(temperature_c) as temperature_max_c,
    round(avg(humidity_pct), 2) as humidity_avg_pct,
    min(humidity_pct) as humidity_min_pct,
    max(humidity_pct) as humidity_max_pct
from {{ ref('curated_rooms') }}
group by room_type, cast(measured_at as date)

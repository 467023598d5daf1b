{{ config(partition_by=['months(analysed_on)'], sort_by=['analysed_on', 'device_id']) }}

-- One bad reading of a day is an anomaly of that day; the thresholds are rows of a seed.
with measured as (
    select
        readings.device_id,
        cast(readings.reading_at as date) as analysed_on,
        metrics.metric,
        metrics.measured_value
    from {{ ref('curated_readings') }} as readings
        lateral view explode(
            map(
                'battery_pct', readings.battery_pct,
                'humidity_pct', readings.humidity_pct,
                'temperature_c', readings.temperature_c
            )
        ) metrics as metric, measured_value
),

anomalies as (
    select
        measured.device_id,
        measured.analysed_on,
        case
            when measured.measured_value < thresholds.lowest_healthy
                then concat(measured.metric, ' below ', thresholds.lowest_healthy)
            when measured.measured_value > thresholds.highest_healthy
                then concat(measured.metric, ' above ', thresholds.highest_healthy)
        end as anomaly
    from measured
    inner join {{ ref('device_thresholds') }} as thresholds on measured.metric = thresholds.metric
),

found as (
    select
        device_id,
        analysed_on,
        sort_array(collect_set(anomaly)) as anomalies
    from anomalies
    group by device_id, analysed_on
),

days as (
    select
        device_id,
        cast(reading_at as date) as analysed_on,
        max(reading_at) as last_reading_at,
        count(*) as readings_count,
        named_struct(
            'temperature_c', round(avg(temperature_c), 2),
            'humidity_pct', round(avg(humidity_pct), 2),
            'battery_pct', round(min(battery_pct), 2),
            'latitude', max_by(latitude, reading_at),
            'longitude', max_by(longitude, reading_at)
        ) as metrics
    from {{ ref('curated_readings') }}
    group by device_id, cast(reading_at as date)
)

select
    days.device_id,
    days.analysed_on,
    days.last_reading_at,
    days.readings_count,
    days.metrics,
    found.anomalies,
    size(found.anomalies) as anomaly_count,
    if(size(found.anomalies) > 0, 'anomalies_detected', 'healthy') as health_status
from days
left join found
    on days.device_id = found.device_id
    and days.analysed_on = found.analysed_on

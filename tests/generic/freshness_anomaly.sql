{# Rows come as often as usual, and are as new as usual when they come: the newest of `event_at`,
   else of the time that the table is partitioned by, else of its first column `…_at`. #}
{% test freshness_anomaly(model, event_at=none, threshold=3.5, min_history=7) %}
{{ config(severity='warn') }}
{% if execute %}
{{ adapter.tables().anomalies(
    model, kinds=['cadence', 'late data'], column=event_at,
    threshold=threshold, min_history=min_history
) }}
{% endif %}
{% endtest %}

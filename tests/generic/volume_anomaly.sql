{# As many rows came as usual, by the table's snapshots; docs/anomalies.md says what is usual. #}
{% test volume_anomaly(model, threshold=3.5, min_history=7) %}
{{ config(severity='warn') }}
{% if execute %}
{{ adapter.tables().anomalies(model, kinds=['volume'], threshold=threshold, min_history=min_history) }}
{% endif %}
{% endtest %}

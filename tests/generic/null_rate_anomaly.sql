{# As many values are null as usual in the files of the newest change: of a column, or of each. #}
{% test null_rate_anomaly(model, column_name=none, threshold=3.5, min_history=7) %}
{{ config(severity='warn') }}
{% if execute %}
{{ adapter.tables().anomalies(
    model, kinds=['null rate'], column=column_name, threshold=threshold, min_history=min_history
) }}
{% endif %}
{% endtest %}

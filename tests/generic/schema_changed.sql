{# The newest change left the columns as they were: their names, and their types. #}
{% test schema_changed(model) %}
{{ config(severity='warn') }}
{% if execute %}
{{ adapter.tables().anomalies(model, kinds=['schema']) }}
{% endif %}
{% endtest %}

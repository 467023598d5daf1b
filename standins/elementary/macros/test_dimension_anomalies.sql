{% test dimension_anomalies(model) %}
    {#- To name `kwargs` is Jinja's way to take any arguments. -#}
    {% set ignored = kwargs %}
    {{ config(enabled=false) }}
{% endtest %}

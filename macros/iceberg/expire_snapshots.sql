{# Forget old snapshots, and delete the files that only they need. What a branch or tag is at stays,
   so releases do. Without more, the table's own `history.expire.*` decide. #}
{% macro expire_snapshots(table, older_than_days=none, retain_last=none) %}
    {% set older_than = none %}
    {% if older_than_days is not none %}
        {% set limit = run_started_at - modules.datetime.timedelta(days=older_than_days | float) %}
        {% set older_than = "timestamp '" ~ limit.strftime('%Y-%m-%d %H:%M:%S') ~ " UTC'" %}
    {% endif %}
    {% set arguments = {'older_than': older_than, 'retain_last': retain_last} %}
    {{ return(iceberg_statement(iceberg_call('expire_snapshots', table, arguments))) }}
{% endmacro %}

{# Forget old snapshots, and delete the files that only they need. What a branch or tag is at stays,
   so releases do. Without more, the table's own `history.expire.*` decide. #}
{% macro expire_snapshots(table, older_than_days=none, retain_last=none) %}
    {% set call = ["table => '" ~ iceberg_table(table) ~ "'"] %}
    {% if older_than_days is not none %}
        {% set limit = run_started_at - modules.datetime.timedelta(days=older_than_days | float) %}
        {% do call.append(
            "older_than => timestamp '" ~ limit.strftime('%Y-%m-%d %H:%M:%S') ~ " UTC'"
        ) %}
    {% endif %}
    {% do call.append('retain_last => ' ~ retain_last) if retain_last is not none %}
    {{ return(iceberg_statement('call system.expire_snapshots(' ~ call | join(', ') ~ ')')) }}
{% endmacro %}

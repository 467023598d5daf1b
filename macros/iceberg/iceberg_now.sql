{# Run a statement that a macro has rendered; `dbt run-operation` has run it by then. #}
{% macro iceberg_now(sql) %}
    {% do run_query(sql) if sql %}
{% endmacro %}

{# In a hook dbt runs what a macro renders. `dbt run-operation` runs nothing by itself, so there the
   statement runs here, and what it answers is told. #}
{% macro iceberg_statement(sql) %}
    {% if not (execute and flags.WHICH == 'run-operation') %}
        {{ return(sql) }}
    {% endif %}
    {% do log(sql, info=true) %}
    {% set answer = run_query(sql) %}
    {% for row in answer.rows %}
        {% for name in answer.column_names %}
            {% do log('  ' ~ name ~ ': ' ~ row[name], info=true) %}
        {% endfor %}
    {% endfor %}
    {{ return('') }}
{% endmacro %}

{# A call of one of Iceberg's procedures on a table; `arguments` are SQL by name, or none. #}
{% macro iceberg_call(procedure, table, arguments) %}
    {% set told = ['table => ' ~ icegate_literal(iceberg_table(table))] %}
    {% for name, value in arguments.items() if value is not none %}
        {% do told.append(name ~ ' => ' ~ value) %}
    {% endfor %}
    {{ return('call system.' ~ procedure ~ '(' ~ told | join(', ') ~ ')') }}
{% endmacro %}

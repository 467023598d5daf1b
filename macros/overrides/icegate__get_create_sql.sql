{# dbt stores the rows that fail a test as they are. Their table outlives a rejected build and is
   read by reports, so what `meta: {pii: …}` says of a column counts there, too. #}
{% macro icegate__get_create_sql(relation, sql) %}
    {%- if model.resource_type == 'test' -%}
        {%- set sql = adapter.gate().personal.masked(model, sql) -%}
    {%- endif -%}
    {{ dbt.default__get_create_sql(relation, sql) }}
{% endmacro %}

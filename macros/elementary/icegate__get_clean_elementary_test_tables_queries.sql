{# Iceberg's catalog forgets a table that is dropped, and leaves its files where they are, unless
   it's told to purge them. Temporary views go with the session. #}
{% macro icegate__get_clean_elementary_test_tables_queries(test_table_relations) %}
    {% set queries = [] %}
    {% for relation in test_table_relations if relation.schema %}
        {% do queries.append('drop table if exists ' ~ relation ~ ' purge') %}
    {% endfor %}
    {% do return(queries) %}
{% endmacro %}

{# elementary drops each of its test tables before it makes it. Their names have the microsecond, so
   there never is one. #}
{% macro icegate__create_or_replace(temporary, relation, sql_query, expiration_hours=none) %}
    {% do elementary.edr_create_table_as(not relation.schema, relation, sql_query) %}
{% endmacro %}

{# `SCHEMA.TABLE` here, since Spark's names have no database. elementary's own splits at the pattern
   `.`, which is any character to Spark: all parts come out empty, and what was found is no table's. #}
{% macro icegate__full_name_split(part_name) %}
    {% if part_name == 'database_name' %}
        cast(null as string)
    {% else %}
        element_at(split(full_table_name, '[.]'), {{ -2 if part_name == 'schema_name' else -1 }})
    {% endif %}
    as {{ part_name }}
{% endmacro %}

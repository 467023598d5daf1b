{#- Models of another file_format than Iceberg are built by dbt-spark's own materializations. -#}

{% macro icegate_is_other_format() %}
    {% do return((config.get('file_format') or 'iceberg') != 'iceberg') %}
{% endmacro %}

{% macro icegate_as_in_stock(materialization) %}
    {% set file_format = config.get('file_format') %}
    {% if model.get('language') == 'python' %}
        {% do exceptions.raise_compiler_error(
            'model ' ~ model['name'] ~ ' is Python with file_format ' ~ file_format
            ~ '\n  why: dbt-spark runs no Python model on open Spark, and icegate builds Iceberg'
            ~ '\n  fix: remove file_format, or write the model in SQL'
        ) %}
    {% endif %}
    {% do adapter.tables().check_format(model['name'], file_format) %}
    {% do log(
        'file_format=' ~ file_format ~ ' model=' ~ model['name']
        ~ ": as in dbt-spark, without Iceberg's features", info=True
    ) %}
    {% do return(context['materialization_' ~ materialization ~ '_spark']()) %}
{% endmacro %}

{#- Stock has no atomic replace for these; cells and types are those of Iceberg seeds. -#}
{% macro icegate_seed_in_other_format(relation, existing, select_sql) %}
    {% do adapter.tables().check_format(model['name'], config.get('file_format')) %}
    {% if existing is not none %}
        {% do adapter.drop_relation(existing) %}
    {% endif %}
    {% call statement('main') %}
        {{ create_table_as(False, relation, select_sql) }}
    {% endcall %}
{% endmacro %}

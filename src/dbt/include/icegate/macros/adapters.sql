{#- What dbt-spark's macros get wrong on Iceberg, or say by one statement a table. -#}

{#- A project overrides this with its own: profile name -> properties. -#}
{% macro table_profiles() %}
    {% do return({}) %}
{% endmacro %}

{#- The model's properties, and one that remembers which they are. -#}
{% macro icegate__tblproperties_clause() -%}
    {{ spark__tblproperties_clause() if icegate_is_other_format()
        else icegate_wanted().properties_sql() }}
{%- endmacro %}

{% macro icegate__file_format_clause() -%}
    using {{ config.get('file_format') or 'iceberg' }}
{%- endmacro %}

{% macro icegate__partition_cols(label, required=false) -%}
    {{ spark__partition_cols(label, required) if icegate_is_other_format()
        else icegate_wanted().partitions_sql(label) }}
{%- endmacro %}

{% macro icegate__location_clause() -%}
    {%- set place = adapter.gate().location(model) -%}
    {{ 'location ' ~ icegate_literal(place) if place and not config.get('location_root')
        else spark__location_clause() }}
{%- endmacro %}

{% macro icegate_table_clauses() -%}
    {{ file_format_clause() }}
    {{ partition_cols(label="partitioned by") }}
    {{ location_clause() }}
    {{ comment_clause() }}
    {{ tblproperties_clause() }}
{%- endmacro %}

{% macro icegate_create_table_as(relation, select_sql) -%}
    create or replace table {{ relation }}
    {{ icegate_table_clauses() }}
    as
    {{ select_sql }}
{%- endmacro %}

{#- dbt's name for it; the materializations here check a contract before, Python models' too. -#}
{% macro icegate__create_table_as(temporary, relation, compiled_code, language='sql') -%}
    {%- if temporary -%}
    create or replace temporary view {{ relation }} as
    {{ compiled_code }}
    {%- elif icegate_is_other_format() -%}
        {{ spark__create_table_as(temporary, relation, compiled_code, language) }}
    {%- else -%}
        {%- if icegate_is_contracted() -%}
            {%- set compiled_code = icegate_contracted_select(compiled_code) -%}
        {%- endif -%}
        {{ icegate_create_table_as(relation, compiled_code) }}
    {%- endif -%}
{%- endmacro %}

{#- Text of a description: a quote or a backslash in it must not end the literal. -#}
{% macro icegate_literal(text) -%}
'{{ text | replace("\\", "\\\\") | replace("'", "\\'") }}'
{%- endmacro %}

{% macro icegate__comment_clause() -%}
    {%- if config.persist_relation_docs() and model.description %}
    comment {{ icegate_literal(model.description) }}
    {%- endif %}
{%- endmacro %}

{#- With `--empty` a ref is a subquery, except to `render`. -#}
{% macro icegate__alter_column_type(relation, column_name, new_column_type) %}
    {% call statement('alter_column_type') %}
        alter table {{ relation.render() }} alter column {{ adapter.quote(column_name) }}
        type {{ new_column_type }}
    {% endcall %}
{% endmacro %}

{#- dbt-spark returns the raw rows of `describe`, which breaks `hard_deletes: new_record`. -#}
{% macro icegate__get_columns_in_relation(relation) -%}
    {% do return(adapter.get_columns_in_relation(relation)) %}
{%- endmacro %}

{#- This catalog has no `drop schema … cascade`. -#}
{% macro icegate__drop_schema(relation) -%}
    {% for inside in adapter.list_relations_without_caching(relation) %}
        {% do adapter.drop_relation(inside) %}
    {% endfor %}
    {% call statement('drop_schema') %}
        drop schema if exists {{ relation.without_identifier() }}
    {% endcall %}
{%- endmacro %}

{% macro icegate__alter_relation_add_remove_columns(relation, add_columns, remove_columns) %}
    {% for verb, columns in [('add', add_columns), ('drop', remove_columns)] if columns %}
        {% call statement() %}
            alter table {{ relation }} {{ verb }} columns (
                {%- for column in columns %}
                {{ column.quoted }} {{ column.data_type if verb == 'add' }}{{ ',' if not loop.last }}
                {%- endfor %}
            )
        {% endcall %}
    {% endfor %}
{% endmacro %}

{#- What dbt-spark's macros get wrong on Iceberg, or say by one statement a table. -#}

{#- A project overrides this with its own: profile name -> properties. -#}
{% macro table_profiles() %}
    {% do return({}) %}
{% endmacro %}

{% macro icegate__tblproperties_clause() -%}
    {%- set properties = adapter.table_properties(
        config.get('table_profile'), config.get('tblproperties'), table_profiles()
    ) -%}
    {%- if properties %}
    tblproperties (
        {%- for name, value in properties.items() %}
        '{{ name }}' = '{{ value | replace("'", "\\'") }}'{{ ',' if not loop.last }}
        {%- endfor %}
    )
    {%- endif %}
{%- endmacro %}

{% macro icegate__file_format_clause() -%}
    {%- set file_format = config.get('file_format', 'iceberg') -%}
    {%- if file_format != 'iceberg' -%}
        {% do exceptions.raise_compiler_error(
            "file_format '" ~ file_format ~ "': this catalog holds Iceberg tables only; remove it"
        ) %}
    {%- endif -%}
    using iceberg
{%- endmacro %}

{% macro icegate__create_table_as(temporary, relation, compiled_code, language='sql') -%}
    {%- if temporary -%}
    create or replace temporary view {{ relation }} as
    {{ compiled_code }}
    {%- else -%}
    {%- if config.get('contract').enforced -%}
        {{ get_assert_columns_equivalent(compiled_code) }}
        {%- set compiled_code = get_select_subquery(compiled_code) -%}
    {%- endif %}
    create or replace table {{ relation }}
    {{ file_format_clause() }}
    {{ partition_cols(label="partitioned by") }}
    {{ location_clause() }}
    {{ comment_clause() }}
    {{ tblproperties_clause() }}
    as
    {{ compiled_code }}
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

{% macro icegate__alter_column_comment(relation, column_dict) %}
    {% for name, column in column_dict.items() %}
        {% call statement() %}
            alter table {{ relation }} alter column {{ adapter.quote(column.name) }}
            comment {{ icegate_literal(column.description) }}
        {% endcall %}
    {% endfor %}
{% endmacro %}

{#- dbt-spark returns the raw rows of `describe`, which breaks `hard_deletes: new_record`. -#}
{% macro icegate__get_columns_in_relation(relation) -%}
    {% do return(adapter.get_columns_in_relation(relation)) %}
{%- endmacro %}

{% macro icegate_show_tables(schema_relation) %}
    {% call statement('show_tables', fetch_result=True) %}
        show tables in {{ schema_relation.schema }}
    {% endcall %}
    {% do return(load_result('show_tables').table) %}
{% endmacro %}

{% macro icegate_show_views(schema_relation) %}
    {% call statement('show_views', fetch_result=True) %}
        show views in {{ schema_relation.schema }}
    {% endcall %}
    {% do return(load_result('show_views').table) %}
{% endmacro %}

{#- This catalog has no `drop schema … cascade`. -#}
{% macro icegate__drop_schema(relation) -%}
    {% for inside in adapter.list_relations(database=none, schema=relation.schema) %}
        {% do adapter.drop_relation(inside) %}
    {% endfor %}
    {% call statement('drop_schema') %}
        drop schema if exists {{ relation.without_identifier() }}
    {% endcall %}
{%- endmacro %}

{% macro icegate__alter_relation_add_remove_columns(relation, add_columns, remove_columns) %}
    {% if add_columns %}
        {% call statement() %}
            alter table {{ relation }} add columns (
                {%- for column in add_columns %}
                {{ column.quoted }} {{ column.data_type }}{{ ',' if not loop.last }}
                {%- endfor %}
            )
        {% endcall %}
    {% endif %}
    {% if remove_columns %}
        {% call statement() %}
            alter table {{ relation }} drop columns (
                {%- for column in remove_columns %}{{ column.quoted }}{{ ', ' if not loop.last }}
                {%- endfor -%}
            )
        {% endcall %}
    {% endif %}
{% endmacro %}

{#-
    The files of a landing source that this table doesn't hold yet, as a predicate of literals:
    Spark then opens these files only. Files are known by `<day>/<file>` in column `loaded_from`.
-#}
{% macro not_yet_loaded(source_relation) -%}
    {%- if not execute -%}
        true
    {%- else -%}
        {%- set loaded = [] -%}
        {%- if is_incremental() -%}
            {%- set rows = run_query('select distinct loaded_from from ' ~ this) -%}
            {%- set loaded = rows.columns[0].values() | list -%}
        {%- endif -%}
        {%- set files = adapter.files_to_load(source_relation, loaded) -%}
        {%- if not files -%}
        false
        {%- else -%}
        _metadata.file_path in (
            {%- for file in files %}
            {{ icegate_literal(file) }}{{ ',' if not loop.last }}
            {%- endfor %}
        )
        {%- endif -%}
    {%- endif -%}
{%- endmacro %}

{#-
    The files of a landing source that this table doesn't hold yet, as a predicate of literals:
    Spark then opens these files only. Files are known by `<day>/<file>` in column `loaded_from`.
-#}
{% macro not_yet_loaded(source_relation) -%}
    {%- set table = this if is_incremental() else none -%}
    {{- adapter.tables().not_yet_loaded(source_relation, table) if execute else 'true' -}}
{%- endmacro %}

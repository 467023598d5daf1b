{#-
    dbt-spark ignores the order. A limit cuts at a separator that no text has (unit separator), which
    then becomes the delimiter.
-#}
{% macro icegate__listagg(measure, delimiter_text, order_by_clause, limit_num) -%}
    {%- set delimiter = "'\\u001f'" if limit_num else delimiter_text -%}
    {%- set order = 'within group (' ~ order_by_clause ~ ')' if order_by_clause -%}
    {%- set joined = 'listagg(' ~ measure ~ ', ' ~ delimiter ~ ') ' ~ (order or '') -%}
    {%- if limit_num -%}
        replace(substring_index({{ joined }}, {{ delimiter }}, {{ limit_num }}), {{ delimiter }}, {{ delimiter_text }})
    {%- else -%}
        {{ joined }}
    {%- endif -%}
{%- endmacro %}

{#- A table as a release had it, to join tables of one: `{{ as_of(ref('x'), release=42) }}`. -#}
{% macro as_of(relation, release) -%}
    {{- adapter.gate().as_of(relation, release) if execute else relation -}}
{%- endmacro %}

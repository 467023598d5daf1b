{# dbt's own puts the target's schema before every name, which would give `main_silver` here. Other
   targets keep that prefix, so that two people on one catalog don't meet. #}
{% macro generate_schema_name(custom_schema_name, node) %}
    {%- if custom_schema_name is none -%}
        {{ target.schema }}
    {%- elif target.schema == 'main' -%}
        {{ custom_schema_name | trim }}
    {%- else -%}
        {{ target.schema }}_{{ custom_schema_name | trim }}
    {%- endif -%}
{% endmacro %}

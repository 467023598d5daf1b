{# A value stays where at least `k` subjects share the values of `group`, else it is null. Give each
   column of a group the same `group`, or those that stay tell about those that don't. #}
{% macro suppress(column, group, k, subject) -%}
{%- set shared -%}
case
    when
        size(collect_set({{ subject }}) over (partition by {{ group | join(', ') }})) >= {{ k }}
        then {{ column }}
end
{%- endset -%}
{{ masked_value(shared) }}
{%- endmacro %}

{# A value is hidden as a whole where what may be shown would be more than a third of it. #}
{% macro mask(column, show_first=0, show_last=0) -%}
{%- set masked -%}
case
    when length({{ column }}) >= {{ [3 * (show_first + show_last), 1] | max }}
        then concat(
            left({{ column }}, {{ show_first }}), '•••', right({{ column }}, {{ show_last }})
        )
    when {{ column }} is not null then '•••'
end
{%- endset -%}
{{ masked_value(masked) }}
{%- endmacro %}

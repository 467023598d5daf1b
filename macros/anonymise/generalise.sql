{# Coarser: a number to the lower border of its band, a date to the first day of its month, a place
   to its region. A place that `regions` doesn't name is `other`, or it would stay as it is. #}
{% macro generalise(column, width=none, unit=none, regions=none) -%}
{%- if [width, unit, regions] | reject('none') | list | length != 1 -%}
    {{ exceptions.raise_compiler_error('generalise: give one of width, unit and regions') }}
{%- endif -%}
{%- set coarse -%}
{%- if width is not none -%}
floor({{ column }} / {{ width }}) * {{ width }}
{%- elif unit is not none -%}
cast(date_trunc('{{ unit }}', {{ column }}) as date)
{%- else -%}
case
    {%- for place, region in regions.items() %}
    when {{ column }} = '{{ dbt.escape_single_quotes(place) }}'
        then '{{ dbt.escape_single_quotes(region) }}'
    {%- endfor %}
    when {{ column }} is not null then 'other'
end
{%- endif -%}
{%- endset -%}
{{ masked_value(coarse) }}
{%- endmacro %}

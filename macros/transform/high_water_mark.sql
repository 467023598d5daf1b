{% macro high_water_mark(column, minus_days) %}
(
    select coalesce(date_sub(max(merged.{{ column }}), {{ minus_days }}), date '1970-01-01')
    from {{ this }} as merged
)
{%- endmacro %}

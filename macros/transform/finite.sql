{# NaN and infinity aren't measurements: they pass comparisons that no number passes. #}
{% macro finite(raw) -%}
case
    when abs(try_cast({{ raw }} as double)) < double('infinity') then try_cast({{ raw }} as double)
end
{%- endmacro %}

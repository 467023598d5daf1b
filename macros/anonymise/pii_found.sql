{# The kinds of personal data in a text, as an array. #}
{% macro pii_found(text, kinds) -%}
array_compact(array(
    {%- for kind in kinds %}
    {%- set pattern = pii_patterns()[kind] %}
    case
        {%- if kind == 'card' %}
        when exists(
            regexp_extract_all({{ text }}, '{{ pattern }}', 0),
            found -> {{ passes_luhn('found') }}
        ) then 'card'
        {%- else %}
        when regexp_like({{ text }}, '{{ pattern }}') then '{{ kind }}'
        {%- endif %}
    end {{- ',' if not loop.last }}
    {%- endfor %}
))
{%- endmacro %}

{# Two rounds, so that nobody can go on from one hash to that of a longer value. Whoever knows a
   value can't compute its hash without the key, which is in a view of the session only. #}
{% macro keyed_hash(column, scope='') -%}
{%- set key = '(select hash_key.value from icegate_hash_key as hash_key)' -%}
{%- set hash -%}
sha2(concat({{ key }}, sha2(concat({{ key }}, ':{{ scope }}:', string({{ column }})), 256)), 256)
{%- endset -%}
{{ masked_value(hash) }}
{%- endmacro %}

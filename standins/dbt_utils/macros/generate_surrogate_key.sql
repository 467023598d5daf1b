{# The value is the one that the real package computes, so that keys outlive a change of package. #}
{% macro generate_surrogate_key(field_list) %}
md5(concat_ws(
    '-'
    {% for field in field_list %}
        , coalesce(cast({{ field }} as string), '_dbt_utils_surrogate_key_null_')
    {% endfor %}
))
{% endmacro %}

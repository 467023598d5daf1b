{# The whole of each value has the form of a masked one. Null tells nothing, and passes. #}
{% test is_masked(model, column_name, pattern) %}
select {{ column_name }}
from {{ model }}
where
    not regexp_like(
        {{ column_name }},
        '^({{ dbt.escape_single_quotes(pattern | replace("\\", "\\\\")) }})$'
    )
{% endtest %}

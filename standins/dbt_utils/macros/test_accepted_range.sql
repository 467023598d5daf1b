{# Rows whose value lies outside of the range; without a value there is nothing to compare. #}
{% test accepted_range(model, column_name, min_value=none, max_value=none, inclusive=true) %}
select *
from {{ model }}
where
    false
    {% if min_value is not none %}
        or {{ column_name }} {{ '<' if inclusive else '<=' }} {{ min_value }}
    {% endif %}
    {% if max_value is not none %}
        or {{ column_name }} {{ '>' if inclusive else '>=' }} {{ max_value }}
    {% endif %}
{% endtest %}

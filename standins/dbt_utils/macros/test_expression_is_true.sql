{# Rows for which the expression is false; one that is null counts as neither. #}
{% test expression_is_true(model, expression, column_name=none) %}
select *
from {{ model }}
where not ({{ column_name if column_name is not none }} {{ expression }})
{% endtest %}

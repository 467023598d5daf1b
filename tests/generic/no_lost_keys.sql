{# Every key of `upstream` must be in this model; a failing row is a key that got lost. A row
   without a key can't get here, so null counts as lost too. #}
{% test no_lost_keys(model, column_name, upstream) %}
select distinct upstream.{{ column_name }}
from {{ upstream }} as upstream
left anti join {{ model }} as kept on upstream.{{ column_name }} = kept.{{ column_name }}
{% endtest %}

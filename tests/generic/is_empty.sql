{# For tables of findings: every row is something to look at. #}
{% test is_empty(model) %}
select * from {{ model }}
{% endtest %}

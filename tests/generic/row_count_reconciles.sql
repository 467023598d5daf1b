{# This model has as many rows as `upstream` has by `upstream_where`. #}
{% test row_count_reconciles(model, upstream, upstream_where='true', most_apart=0) %}
with counted as (
    select
        (select count(*) from {{ model }}) as rows_here,
        (select count(*) from {{ upstream }} where {{ upstream_where }}) as rows_upstream
)

select rows_here, rows_upstream
from counted
where abs(rows_here - rows_upstream) > {{ most_apart }}
{% endtest %}

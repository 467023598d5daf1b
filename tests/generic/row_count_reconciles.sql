{# This model has as many rows as `upstream` has by `upstream_where`. #}
{% test row_count_reconciles(model, upstream, upstream_where='true') %}
with counted as (
    select
        1 as row_here,
        null as row_upstream
    from {{ model }}
    union all
    select
        null as row_here,
        1 as row_upstream
    from {{ upstream }}
    where {{ upstream_where }}
)

select
    count(row_here) as rows_here,
    count(row_upstream) as rows_upstream
from counted
having count(row_here) <> count(row_upstream)
{% endtest %}

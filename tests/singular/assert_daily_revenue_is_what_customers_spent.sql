-- Both sum the same orders by another road: a join that loses or doubles orders shows here.
with revenue as (
    select sum(metric_value) as amount_usd
    from {{ ref('agg_daily_metrics') }}
    where metric_type = 'daily_revenue'
),

spent as (
    select sum(lifetime_value_usd) as amount_usd from {{ ref('dim_customers') }}
)

select
    revenue.amount_usd as revenue_usd,
    spent.amount_usd as spent_usd
from revenue
cross join spent
where revenue.amount_usd <> spent.amount_usd

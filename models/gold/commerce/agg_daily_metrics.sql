{{ config(sort_by=['metric_type', 'metric_date'], maintenance_keep_month_end='7 years') }}

-- A cancelled order isn't revenue. Categories count what lines cost, since tax and shipping belong
-- to no category.
with daily_revenue as (
    select
        ordered_on as metric_date,
        'daily_revenue' as metric_type,
        'all' as dimension_key,
        'all' as dimension_value,
        sum(net_amount_usd) as metric_value,
        count(*) as metric_count
    from {{ ref('fct_orders') }}
    where not is_cancelled
    group by ordered_on
),

segment_revenue as (
    select
        ordered_on as metric_date,
        'segment_revenue' as metric_type,
        'customer_segment' as dimension_key,
        coalesce(customer_segment, 'unknown') as dimension_value,
        sum(net_amount_usd) as metric_value,
        count(*) as metric_count
    from {{ ref('fct_orders') }}
    where not is_cancelled
    group by ordered_on, coalesce(customer_segment, 'unknown')
),

category_revenue as (
    select
        ordered_on as metric_date,
        'category_revenue' as metric_type,
        'category' as dimension_key,
        coalesce(category, 'unknown') as dimension_value,
        sum(line_amount_usd) as metric_value,
        count(distinct order_id) as metric_count
    from {{ ref('fct_order_items') }}
    where not is_cancelled
    group by ordered_on, coalesce(category, 'unknown')
),

metrics as (
    select * from daily_revenue
    union all
    select * from segment_revenue
    union all
    select * from category_revenue
)

select
    metric_date,
    metric_type,
    dimension_key,
    dimension_value,
    cast(metric_value as decimal(15, 2)) as metric_value,
    metric_count
from metrics

{{ config(sort_by=['sold_minute', 'currency']) }}

select
    date_trunc('minute', sold_at) as sold_minute,
    currency,
    cast(sum(case when kind = 'refund' then -amount else amount end) as decimal(18, 2)) as revenue,
    count_if(kind = 'sale') as sales,
    count_if(kind = 'refund') as refunds
from {{ ref('curated_sales') }}
group by date_trunc('minute', sold_at), currency

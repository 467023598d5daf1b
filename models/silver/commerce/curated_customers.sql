{{ config(unique_key='customer_id', sort_by=['customer_id']) }}

-- What a customer spent changes without a word from the customer's own source, even for the one
-- who lost an order to another customer. So the totals come from all orders (one narrow scan of
-- silver), and what is written is only what differs from the row held here.
{% set attributes = [
    'customer_id', 'email', 'full_name', 'phone', 'city', 'state', 'country', 'source_system',
    'created_at', 'updated_at', 'loaded_from', 'ingested_at',
] %}
with arrived as (
    select
        customer_id,
        lower(trim(email)) as email,
        concat_ws(' ', trim(first_name), trim(last_name)) as full_name,
        regexp_replace(phone, '[^0-9+]', '') as phone,
        address['city'] as city,
        address['state'] as state,
        address['country'] as country,
        source_system,
        created_at,
        updated_at,
        loaded_from,
        ingested_at
    from {{ ref('raw_customers') }}
    where
        customer_id is not null
        {% if is_incremental() %}
            and ingested_at >= {{ high_water_mark('ingested_at', var('late_arrival_days')) }}
        {% endif %}
),

known as (
    select {{ attributes | join(', ') }} from arrived
    {% if is_incremental() %}
        union all
        select {{ attributes | join(', ') }} from {{ this }}
    {% endif %}
),

latest as (
    {{ latest_per_key('known', 'customer_id', ['updated_at', 'loaded_from']) }}
),

-- A cancelled order isn't money.
totals as (
    select
        customer_id,
        count(*) as total_orders,
        sum(net_amount_usd) as lifetime_value_usd,
        min(ordered_at) as first_ordered_at,
        max(ordered_at) as last_ordered_at,
        max(max(ordered_at)) over () as newest_order_of_all_at
    from {{ ref('curated_orders') }}
    where order_status <> 'cancelled'
    group by customer_id
),

segments as (
    select
        customer_segment,
        lifetime_value_from_usd,
        lead(lifetime_value_from_usd) over (order by lifetime_value_from_usd) as next_from_usd
    from {{ ref('customer_segments') }}
),

computed as (
    select
        latest.*,
        coalesce(totals.total_orders, 0) as total_orders,
        try_cast(coalesce(totals.lifetime_value_usd, 0) as decimal(15, 2)) as lifetime_value_usd,
        totals.first_ordered_at,
        totals.last_ordered_at,
        coalesce(
            totals.last_ordered_at
            >= totals.newest_order_of_all_at - interval {{ var('active_customer_days') }} days,
            false
        ) as is_active
    from latest
    left join totals on latest.customer_id = totals.customer_id
)

select
    computed.*,
    segments.customer_segment
from computed
left join segments
    on computed.lifetime_value_usd >= segments.lifetime_value_from_usd
    and (segments.next_from_usd is null or computed.lifetime_value_usd < segments.next_from_usd)
{% if is_incremental() %}
    left anti join {{ this }} as held
        on computed.customer_id = held.customer_id
        and computed.loaded_from = held.loaded_from
        and computed.updated_at <=> held.updated_at
        and struct(computed.total_orders, computed.lifetime_value_usd, computed.is_active)
        <=> struct(held.total_orders, held.lifetime_value_usd, held.is_active)
        and struct(computed.first_ordered_at, computed.last_ordered_at)
        <=> struct(held.first_ordered_at, held.last_ordered_at)
        and segments.customer_segment <=> held.customer_segment
{% endif %}

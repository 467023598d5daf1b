{% snapshot customers_history %}

{{ config(unique_key='customer_id') }}

with versions as (
    select
        customer_id,
        email,
        first_name,
        last_name,
        phone,
        address['city'] as city,
        address['state'] as state,
        address['country'] as country,
        source_system,
        created_at,
        updated_at,
        loaded_from
    from {{ ref('raw_customers') }}
    where customer_id is not null and updated_at is not null
)

{{ latest_per_key('versions', 'customer_id', ['updated_at', 'loaded_from']) }}

{% endsnapshot %}

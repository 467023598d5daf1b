{{ config(unique_key='sale_id', merge_plan='auto', partition_by=['days(sold_at)']) }}

-- A till that got no answer sends a sale again: the newest counts. Records come late, held back or
-- replayed, so that no high-water mark would do: all are looked at, by three columns.
with changes as (
    select *
    from {{ ref('raw_sales') }} as arrived
    {% if is_incremental() %}
        where {{ newer_than_held('arrived', 'sale_id', ['source_time', 'source_offset']) }}
    {% endif %}
)

{{ latest_per_key('changes', 'sale_id', ['source_time', 'source_offset']) }}

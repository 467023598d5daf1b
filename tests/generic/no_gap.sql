{# A version of a key ends where the next one begins, except where a delete ended it: `deleted` is
   the column that says so, none where keys never go. #}
{% test no_gap(
    model, unique_key, valid_from='valid_from', valid_to='valid_to', deleted='is_deleted'
) %}
{% set keys = [unique_key] if unique_key is string else unique_key %}
with spans as (
    select
        {{ keys | join(', ') }},
        {{ valid_from }},
        {{ valid_to }},
        {{ deleted or 'false' }} as was_deleted,
        lead({{ valid_from }}) over (
            partition by {{ keys | join(', ') }} order by {{ valid_from }}, {{ valid_to }} nulls last
        ) as next_from
    from {{ model }}
)

select *
from spans
where
    not was_deleted
    and (
        (next_from is not null and not {{ valid_to }} <=> next_from)
        or (next_from is null and {{ valid_to }} is not null)
    )
{% endtest %}

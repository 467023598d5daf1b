{# No two versions of a key hold at one moment. Spans are half open; without an end they go on. #}
{% test no_overlap(model, unique_key, valid_from='valid_from', valid_to='valid_to') %}
{% set keys = [unique_key] if unique_key is string else unique_key %}
with spans as (
    select
        {{ keys | join(', ') }},
        {{ valid_from }},
        {{ valid_to }},
        lead({{ valid_from }}) over (
            partition by {{ keys | join(', ') }} order by {{ valid_from }}, {{ valid_to }} nulls last
        ) as next_from
    from {{ model }}
)

select *
from spans
where
    {{ valid_from }} is null
    or {{ valid_to }} < {{ valid_from }}
    or (next_from is not null and ({{ valid_to }} is null or {{ valid_to }} > next_from))
{% endtest %}

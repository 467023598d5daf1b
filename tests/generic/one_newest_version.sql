{# Two versions of a key that claim the same moment and disagree: one of them is wrong, and taking
   either would hide it. A newer version settles the matter. #}
{% test one_newest_version(model, upstream, key, newest_by, compare) %}
with ranked as (
    select
        {{ key | join(', ') }},
        to_json(struct({{ compare | join(', ') }})) as content,
        rank() over (partition by {{ key | join(', ') }} order by {{ newest_by }} desc) as version_rank
    from {{ upstream }}
    where ({{ key | join(', ') }}) in (select {{ key | join(', ') }} from {{ model }})
)

select {{ key | join(', ') }}
from ranked
where version_rank = 1
group by {{ key | join(', ') }}
having count(distinct content) > 1
{% endtest %}

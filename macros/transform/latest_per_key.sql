{% macro latest_per_key(relation, key, newest_by) %}
select * except (version_rank)
from (
    select
        *,
        row_number() over (
            partition by {{ key }}
            order by {{ newest_by | join(' desc, ') }} desc
        ) as version_rank
    from {{ relation }}
)
where version_rank = 1
{%- endmacro %}

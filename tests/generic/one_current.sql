{# A key has one current version at most, which has no end; what has no end is current. #}
{% test one_current(model, unique_key, valid_to='valid_to', current='is_current') %}
{% set keys = [unique_key] if unique_key is string else unique_key %}
select
    {{ keys | join(', ') }},
    count_if({{ current }}) as current_versions,
    count_if({{ valid_to }} is null) as open_versions
from {{ model }}
group by {{ keys | join(', ') }}
having
    current_versions > 1
    or open_versions > 1
    or count_if({{ current }} and {{ valid_to }} is not null) > 0
    or count_if(not {{ current }} and {{ valid_to }} is null) > 0
{% endtest %}

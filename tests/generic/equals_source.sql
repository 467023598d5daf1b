{# The current versions are the rows of the source, in the columns of `compare` (all that it has
   without one): what only one of them has is returned. #}
{% test equals_source(model, source, compare=none, current='is_current') %}
{% if execute %}
{% set names = compare or adapter.get_columns_in_relation(source) | map(attribute='quoted') | list %}
(
    select 'only in the source' as found, {{ names | join(', ') }} from {{ source }}
    except all
    select 'only in the source', {{ names | join(', ') }} from {{ model }} where {{ current }}
)
union all
(
    select 'only in the history' as found, {{ names | join(', ') }} from {{ model }} where {{ current }}
    except all
    select 'only in the history', {{ names | join(', ') }} from {{ source }}
)
{% endif %}
{% endtest %}

{# All dates of a subject move by the same number of days, from -max_days to max_days, so that what
   lies between two of them stays. Without a subject there is no date. #}
{% macro date_shift(column, subject, max_days, type='date') -%}
{%- set moved -%}
cast(
    timestampadd(
        day,
        int(
            bigint(conv(left({{ keyed_hash(subject, 'date_shift') }}, 8), 16, 10))
            % {{ 2 * max_days + 1 }}
        ) - {{ max_days }},
        {{ column }}
    ) as {{ type }}
)
{%- endset -%}
{{ masked_value(moved) }}
{%- endmacro %}

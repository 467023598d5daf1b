{# At least `k` subjects, or rows without one, share each set of values: nobody stands out. Rows
   whose values are all null tell nothing. L. Sweeney, k-anonymity (2002). #}
{% test k_anonymity(model, quasi_identifiers, k, subject=none) %}
select
    {{ quasi_identifiers | join(', ') }},
    {{ 'count(distinct ' ~ subject ~ ')' if subject else 'count(*)' }} as subjects
from {{ model }}
where not ({{ quasi_identifiers | join(' is null and ') }} is null)
group by {{ quasi_identifiers | join(', ') }}
having {{ 'count(distinct ' ~ subject ~ ')' if subject else 'count(*)' }} < {{ k }}
{% endtest %}

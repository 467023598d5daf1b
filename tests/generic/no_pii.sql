{# Of what was found it tells the column and the kind, never the value: failing rows are stored and
   sent. A phone number without signs looks like any number, so `phone_digits` is asked for only. #}
{% test no_pii(model, column_name=none, columns=none, kinds=none) %}
{%- set read = [column_name] if column_name else columns or ['*'] %}
{%- set kinds = kinds or ['email', 'phone', 'card', 'national_id', 'ip'] %}
with cells as (
    select explode(from_json(to_json(struct({{ read | join(', ') }})), 'map<string,string>'))
        as (column_name, cell)
    from {{ model }}
)

select
    column_name,
    explode({{ pii_found('cell', kinds) }}) as kind
from cells
{% endtest %}

{% macro line_amount(item) %}
try_cast(
    round({{ item }}.quantity * {{ item }}.unit_price * (1 - {{ item }}.discount), 2)
    as decimal(12, 2)
)
{%- endmacro %}

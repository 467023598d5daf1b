{# Luhn's check of a card's number: from the right every second digit counts double, the digits of a
   double are summed, and the sum of all ends with 0. ISO/IEC 7812-1, annex B. #}
{% macro passes_luhn(number) -%}
aggregate(
    transform(
        split(reverse(regexp_replace({{ number }}, '[^0-9]', '')), ''),
        (digit, place) -> int(digit) * (1 + place % 2) - if(int(digit) * (1 + place % 2) > 9, 9, 0)
    ),
    0,
    (total, digit) -> total + digit
) % 10 = 0
{%- endmacro %}

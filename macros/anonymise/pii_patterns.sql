{# A word before or after isn't part of it, so that a hash, or an id with letters, is none. `phone`
   takes a plus sign or parts that are set apart: a bare number may be anything, and is
   `phone_digits`. Kinds of your own go here. #}
{% macro pii_patterns() -%}
{%- set apart, word = '(?<![0-9A-Za-z_.-])', '(?![0-9A-Za-z_-])' -%}
{%- set octet, hex = '(25[0-5]|2[0-4][0-9]|1?[0-9]?[0-9])', '[0-9A-Fa-f]' -%}
{{ return({
    'email': '[^@ ,;:<>()"]{1,64}@[^@ ,;:<>()"]{1,255}[.][^@ .,;:<>()"0-9]{2,}',
    'phone': apart ~ '([+][0-9]([ ().-]{0,2}[0-9]){6,14}'
        ~ '|[(]?[0-9]{3}[)]?[-. ]{1,2}[0-9]{3}[-. ][0-9]{4})' ~ word,
    'phone_digits': apart ~ '[0-9]{9,15}' ~ word,
    'card': apart ~ '[2-6]([ -]?[0-9]){12,18}' ~ word,
    'national_id': apart ~ '((?!000|666|9)[0-9]{3}-(?!00)[0-9]{2}-(?!0000)[0-9]{4}'
        ~ '|[A-CEGHJ-PR-TW-Z]{2} ?([0-9]{2} ?){3}[A-D])' ~ word,
    'ip': '(?<![0-9A-Za-z_.:])((' ~ octet ~ '[.]){3}' ~ octet ~ '(?![.]?[0-9])'
        ~ '|(' ~ hex ~ '{1,4}:){7}' ~ hex ~ '{1,4}'
        ~ '|(?=' ~ hex ~ '*(:' ~ hex ~ '+)*::)(' ~ hex ~ '{0,4}:){2,7}' ~ hex ~ '{1,4})(?![0-9A-Za-z_:])',
}) }}
{%- endmacro %}

{# `key` is text that isn't blank, `finite` a number that isn't NaN; else a type of Spark. #}
{% macro rejected_value(column, raw, type) %}
{%- set parses, reason = {
    'key': ('trim(' ~ raw ~ ") <> ''", 'blank'),
    'finite': (finite(raw) ~ ' is not null', 'not a finite number'),
}.get(type, ('try_cast(' ~ raw ~ ' as ' ~ type ~ ') is not null', 'not a valid ' ~ type)) -%}
case
    when {{ raw }} is not null and not ({{ parses }})
        then named_struct(
            'column_name', '{{ column }}',
            'raw_value', string({{ raw }}),
            'reason', '{{ reason }}'
        )
end
{%- endmacro %}

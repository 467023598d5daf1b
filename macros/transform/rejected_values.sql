{% macro rejected_values(columns) %}
array_compact(array(
    case
        when _corrupt_record is not null
            then named_struct(
                'column_name', '(whole line)',
                'raw_value', _corrupt_record,
                'reason', 'not JSON of the declared shape'
            )
    end
    {%- for column, (raw, type) in columns.items() %},
    {{ rejected_value(column, raw, type) }}
    {%- endfor %}
))
{%- endmacro %}

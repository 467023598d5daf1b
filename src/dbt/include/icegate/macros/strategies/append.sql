{% macro icegate__get_incremental_append_sql(arg_dict) %}
    {% set names = arg_dict['dest_columns'] | map(attribute='quoted') | join(', ') %}
    insert into {{ arg_dict['target_relation'] }} ({{ names }})
    select {{ names }} from {{ arg_dict['temp_relation'] }}
{% endmacro %}

{#-
    One merge, so that readers never see the gap between a delete and an insert: each row of the
    batch is there twice, to delete what has its key and to be inserted.
-#}
{% macro icegate__get_delete_insert_merge_sql(
    target, source, unique_key, dest_columns, incremental_predicates
) %}
    {% set arg_dict = {
        'target_relation': target, 'temp_relation': source, 'unique_key': unique_key,
        'dest_columns': dest_columns, 'incremental_predicates': incremental_predicates,
    } %}
    {% set plan = adapter.batches().plan(model, arg_dict) %}
    {% if not plan.keys %}
        {% do return(icegate__get_incremental_append_sql(arg_dict)) %}
    {% endif %}
    {#- In a struct, so that a predicate's bare column is the table's, as in dbt's own delete. -#}
    {% set marked %}
        select struct({{ plan.columns | join(', ') }}) as dbt_row, dbt_deletes
        from {{ source }} lateral view explode(array(true, false)) as dbt_deletes
    {% endset %}
    {% set row = 'DBT_INTERNAL_SOURCE.dbt_row' %}
    {% set on = ['DBT_INTERNAL_SOURCE.dbt_deletes'] + plan.on(row) %}
    {{ icegate_delete_and_insert(target, icegate_held(source, marked), on, plan.columns, row) }}
{% endmacro %}

{#- Rows of `source` with `dbt_deletes` delete what they match, others are inserted. -#}
{% macro icegate_delete_and_insert(target, source, on, columns, row='DBT_INTERNAL_SOURCE') %}
    merge into {{ target }} as DBT_INTERNAL_DEST
    using {{ source }} as DBT_INTERNAL_SOURCE
    on {{ on | join(' and ') }}
    when matched then delete
    when not matched and not DBT_INTERNAL_SOURCE.dbt_deletes then insert ({{ columns | join(', ') }})
    values (
        {%- for column in columns %}
        {{ row }}.{{ column }}{{ ',' if not loop.last }}
        {%- endfor %}
    )
{% endmacro %}

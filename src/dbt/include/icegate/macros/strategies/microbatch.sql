{#-
    A batch replaces the rows of its span of event time, however the table is partitioned. Where
    the span is whole partitions, their files are dropped; else a merge deletes its rows.
-#}
{% macro icegate__get_incremental_microbatch_sql(arg_dict) %}
    {% set target, batch = arg_dict['target_relation'], arg_dict['temp_relation'] %}
    {% set window = adapter.batches().window(model) %}
    {% if window.is_whole_partitions and not icegate_has_old_specs(target, window.partitions) %}
        insert into {{ target }} replace where {{ window.condition() }}
        select {{ icegate_in_table_order(target, arg_dict['dest_columns']) }} from {{ batch }}
    {% else %}
        {{ icegate_replace_window_sql(target, batch, arg_dict['dest_columns'], window) }}
    {% endif %}
{% endmacro %}

{#- Marks 0 to 63 delete; rows of the batch have others, spread so that no task gets them all. -#}
{% macro icegate_replace_window_sql(target, batch, dest_columns, window) %}
    {% set columns = dest_columns | map(attribute='quoted') | list %}
    {% set marked %}
        select {{ columns | join(', ') }}, false as dbt_deletes,
            -1 - pmod({{ window.hash(dest_columns) }}, 1024) as dbt_mark
        from {{ batch }}
        union all
        select {% for column in columns %}null, {% endfor %}true, int(id) from range(64)
    {% endset %}
    {% set on = [
        window.condition('DBT_INTERNAL_DEST.'),
        'DBT_INTERNAL_SOURCE.dbt_mark = pmod('
            ~ window.hash(dest_columns, 'DBT_INTERNAL_DEST.') ~ ', 64)',
    ] %}
    {{ icegate_delete_and_insert(target, icegate_held(batch, marked), on, columns) }}
{% endmacro %}

{#-
    What a batch may hold: a Python model reads all of its refs, as SQL does of those that have no
    event_time, and rows outside of the batch would be added again by each of them.
-#}
{% macro icegate_only_in_window(select_sql) %}
    select * from (
        {{ select_sql }}
    ) as model_subq
    where {{ adapter.batches().window(model).condition() }}
{% endmacro %}

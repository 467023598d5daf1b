{#- The partitions that the batch has rows for are replaced; without partitions the whole table. -#}
{% macro icegate__get_incremental_insert_overwrite_sql(arg_dict) %}
    {% set target, batch = arg_dict['target_relation'], arg_dict['temp_relation'] %}
    {% set items = icegate_in_table_order(target, arg_dict['dest_columns']) %}
    {% set fields = icegate_wanted().partitions %}
    {% if not fields %}
        insert into {{ target }} replace where true
        select {{ items }} from {{ batch }}
    {% elif icegate_has_old_specs(target, fields) %}
        {{ icegate_replace_partitions_sql(target, batch, arg_dict['dest_columns'], fields) }}
    {% else %}
        {#- The same value whenever it is set, so that models in other threads don't mind. -#}
        {% call statement() %}
            set spark.sql.sources.partitionOverwriteMode = dynamic
        {% endcall %}
        insert overwrite {{ target }}
        select {{ items }} from {{ batch }}
    {% endif %}
{% endmacro %}

{#- `replace where` takes no list of columns: rows go in by position, with nulls for the rest. -#}
{% macro icegate_in_table_order(target, dest_columns) -%}
    {%- set there = dest_columns | map(attribute='name') | map('lower') | list -%}
    {%- for column in adapter.get_columns_in_relation(target) -%}
        {{ 'null as ' if column.name | lower not in there }}{{ column.quoted }}
        {{- ', ' if not loop.last }}
    {%- endfor -%}
{%- endmacro %}

{#-
    Whether files may lie under another partitioning than the table has now. Spark's overwrites see
    those of the newest only, so that what an older one holds would double. `_partition` has the
    fields of all partitionings that there were.
-#}
{% macro icegate_has_old_specs(relation, fields) %}
    {% call statement('specs', fetch_result=True) %}
        select
            count(distinct partition_spec_id),
            count_if(size(partition_summaries) <> {{ fields | length }}),
            (select typeof(max(_partition)) from {{ relation }} where false)
        from {{ relation }}.manifests
    {% endcall %}
    {% set specs, others, type = load_result('specs')['data'][0] %}
    {% do return(specs > 1 or others > 0 or type.count(':') != fields | length) %}
{% endmacro %}

{% macro icegate_replace_partitions_sql(target, batch, dest_columns, fields) %}
    {% set columns = dest_columns | map(attribute='quoted') | list %}
    {% set view = batch.identifier ~ '__held' %}
    {% set on = ['DBT_INTERNAL_SOURCE.dbt_deletes'] %}
    {% set values = [] %}
    {% for field in fields %}
        {% do values.append(field.value() ~ ' as dbt_part_' ~ loop.index) %}
        {% do on.append(
            field.value('DBT_INTERNAL_DEST.') ~ ' <=> DBT_INTERNAL_SOURCE.dbt_part_' ~ loop.index
        ) %}
    {% endfor %}
    {% set rows = 'select ' ~ columns | join(', ') ~ ' from ' ~ batch %}
    {% do adapter.batches().hold(view, rows) %}
    {% set marked %}
        (
            select *, false as dbt_deletes, {{ values | join(', ') }} from {{ view }}
            union all
            select distinct
                {% for column in columns %}null, {% endfor %}true, {{ values | join(', ') }}
            from {{ view }}
        )
    {% endset %}
    {{ icegate_delete_and_insert(target, marked, on, columns) }}
{% endmacro %}

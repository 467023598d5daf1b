{% macro icegate__get_merge_sql(target, source, unique_key, dest_columns, incremental_predicates) %}
    {% set plan = adapter.batches().plan(model, {
        'target_relation': target, 'temp_relation': source, 'unique_key': unique_key,
        'dest_columns': dest_columns, 'incremental_predicates': incremental_predicates,
    }) %}
    {% set source = icegate_held(source, icegate_one_row_per_key(source, plan)) %}
    merge into {{ target }} as DBT_INTERNAL_DEST
    using {{ source }} as DBT_INTERNAL_SOURCE
    on {{ plan.on() | join(' and ') }}
    {%- if plan.keys and plan.deleted %}
    when matched {{ plan.deleted }} then delete
    {%- endif %}
    {%- if plan.keys and plan.update %}
    when matched {{ plan.matched }} then update set
        {%- for column in plan.update %}
        {{ column }} = DBT_INTERNAL_SOURCE.{{ column }}{{ ',' if not loop.last }}
        {%- endfor %}
    {%- endif %}
    when not matched {{ plan.not_matched }} then insert ({{ plan.columns | join(', ') }})
    values (
        {%- for column in plan.columns %}
        DBT_INTERNAL_SOURCE.{{ column }}{{ ',' if not loop.last }}
        {%- endfor %}
    )
    {%- if plan.delete_unmatched is not none %}
    when not matched by source {{ plan.delete_unmatched }} then delete
    {%- endif %}
{% endmacro %}

{#-
    Spark sees two rows of one key only where the table has that key, so that both would be
    inserted. The window's shuffle and sort are those of the merge itself.
-#}
{% macro icegate_one_row_per_key(source, plan) %}
    {% if not plan.keys %}
        {% do return('select * from ' ~ source) %}
    {% endif %}
    {% set keys = plan.keys | join(', ') %}
    {% set what = 'cannot merge into ' ~ this
        ~ ': its unique_key has more than one row in the batch' %}
    {% set fix = 'keep one row of each, as with row_number() over (partition by '
        ~ keys ~ ' order by …) = 1' %}
    select {{ plan.batch_columns | join(', ') }}
    from (select *, count(*) over (partition by {{ keys }}) as dbt_key_rows from {{ source }})
    where if(
        {{ plan.is_duplicate }},
        raise_error(concat(
            {{ icegate_literal(what ~ '\n  why: ') }}, dbt_key_rows, ' rows have the key ',
            to_json(struct({{ plan.shown_keys | join(', ') }}), map('ignoreNullFields', 'false')), {{ icegate_literal('\n  fix: ' ~ fix) }}
        )),
        true
    )
{% endmacro %}

{#- The rows of `sql` as a source for a merge: held where Spark would compute them twice. -#}
{% macro icegate_held(batch, sql) %}
    {% if not adapter.batches().rewrites_files(model, table_profiles()) %}
        {% do return('(' ~ sql ~ ')') %}
    {% endif %}
    {% set view = batch.identifier ~ '__held' %}
    {% do adapter.batches().hold(view, sql, batch, model) %}
    {% do return(view) %}
{% endmacro %}

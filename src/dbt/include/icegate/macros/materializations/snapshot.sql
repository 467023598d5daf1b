{% materialization snapshot, adapter='icegate' %}
    {% set done = icegate_done('snapshot') %}
    {% if done %} {% do return(done) %} {% endif %}
    {% set existing = load_cached_relation(this) %}
    {% set relation = this.incorporate(type='table') %}
    {% if existing is not none and not existing.is_table %}
        {% do exceptions.relation_wrong_type(existing, 'table') %}
    {% endif %}

    {{ run_hooks(pre_hooks, inside_transaction=False) }}
    {{ run_hooks(pre_hooks, inside_transaction=True) }}
    {#- Before dbt compares columns by name: one that is renamed is none that was added. -#}
    {% do icegate_reconcile_table(relation) if existing is not none %}
    {% set strategy = strategy_dispatch(config.get('strategy'))(
        model, 'snapshotted_data', 'source_data', model['config'], existing is not none
    ) %}
    {% if existing is none %}
        {% do icegate_replace_table(
            relation, existing, build_snapshot_table(strategy, model['compiled_code'])
        ) %}
    {% else %}
        {% do icegate_snapshot_merge(relation, strategy) %}
    {% endif %}
    {% do apply_grants(relation, config.get('grants'), should_revoke(existing, False)) %}
    {{ run_hooks(post_hooks, inside_transaction=True) }}
    {{ run_hooks(post_hooks, inside_transaction=False) }}

    {{ return({'relations': [relation]}) }}
{% endmaterialization %}

{#- The comparison with the source reads it several times: once is enough for both merge steps. -#}
{% macro icegate_snapshot_merge(relation, strategy) %}
    {% set names = config.get('snapshot_table_column_names') or get_snapshot_table_column_names() %}
    {% do adapter.assert_valid_snapshot_target_given_strategy(relation, names, strategy) %}
    {% set staging = icegate_temp_relation(relation) %}
    {% call statement('staging') %}
        {{ create_table_as(
            True, staging, snapshot_staging_table(strategy, model['compiled_code'], relation)
        ) }}
    {% endcall %}
    {% set table = adapter.get_columns_in_relation(relation) %}
    {% set known = table | map(attribute='name') | map('lower') | list %}
    {% set columns, added = [], [] %}
    {% for column in adapter.get_columns_in_relation(staging)
        if column.name != 'dbt_change_type' and not column.name.startswith('dbt_unique_key') %}
        {% do columns.append(column.quoted) %}
        {% do added.append(column) if column.name | lower not in known %}
    {% endfor %}
    {% do alter_relation_add_remove_columns(relation, added, none) %}
    {% set source = icegate_held(staging, 'select * from ' ~ staging) %}
    {% do icegate_write(staging, snapshot_merge_sql(relation, source, columns)) %}
{% endmacro %}

{#- As dbt's, with the columns of the source by name: the table may have more of them. -#}
{% macro icegate__snapshot_merge_sql(target, source, insert_cols) %}
    {% if icegate_is_other_format() %}
        {% do return(spark__snapshot_merge_sql(target, source, insert_cols)) %}
    {% endif %}
    {% set names = config.get('snapshot_table_column_names') or get_snapshot_table_column_names() %}
    {% set current = config.get('dbt_valid_to_current') %}
    {% set valid_to = 'DBT_INTERNAL_DEST.' ~ names.dbt_valid_to %}
    merge into {{ target }} as DBT_INTERNAL_DEST
    using {{ source }} as DBT_INTERNAL_SOURCE
    on DBT_INTERNAL_SOURCE.{{ names.dbt_scd_id }} = DBT_INTERNAL_DEST.{{ names.dbt_scd_id }}
    when matched
        and ({{ valid_to }} is null {{ 'or ' ~ valid_to ~ ' = ' ~ current if current }})
        and DBT_INTERNAL_SOURCE.dbt_change_type in ('update', 'delete')
        then update set {{ names.dbt_valid_to }} = DBT_INTERNAL_SOURCE.{{ names.dbt_valid_to }}
    when not matched and DBT_INTERNAL_SOURCE.dbt_change_type = 'insert'
        then insert ({{ insert_cols | join(', ') }})
        values (
            {%- for column in insert_cols %}
            DBT_INTERNAL_SOURCE.{{ column }}{{ ',' if not loop.last }}
            {%- endfor %}
        )
{% endmacro %}

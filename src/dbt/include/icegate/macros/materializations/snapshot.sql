{% materialization snapshot, adapter='icegate' %}
    {% set existing = load_cached_relation(this) %}
    {% set relation = this.incorporate(type='table') %}

    {{ run_hooks(pre_hooks, inside_transaction=False) }}
    {{ run_hooks(pre_hooks, inside_transaction=True) }}
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
    {% do persist_docs(relation, model) %}
    {{ run_hooks(post_hooks, inside_transaction=True) }}
    {{ run_hooks(post_hooks, inside_transaction=False) }}

    {{ return({'relations': [relation]}) }}
{% endmaterialization %}

{% macro icegate_snapshot_merge(relation, strategy) %}
    {% set names = config.get('snapshot_table_column_names') or get_snapshot_table_column_names() %}
    {% do adapter.valid_snapshot_target(relation, names) %}
    {% set staging = icegate_temp_relation(relation) %}
    {% call statement('staging') %}
        {{ create_table_as(
            True, staging, snapshot_staging_table(strategy, model['compiled_code'], relation)
        ) }}
    {% endcall %}
    {% set added = [] %}
    {% for column in adapter.get_missing_columns(staging, relation) %}
        {% set name = column.name | lower %}
        {% if name != 'dbt_change_type' and not name.startswith('dbt_unique_key') %}
            {% do added.append(column) %}
        {% endif %}
    {% endfor %}
    {% do alter_relation_add_remove_columns(relation, added, none) %}
    {% call statement('main') %}
        {{ snapshot_merge_sql(relation.replace(is_iceberg=true), staging, none) }}
    {% endcall %}
{% endmacro %}

{% materialization incremental, adapter='icegate', supported_languages=['sql', 'python'] %}
    {% set done = icegate_done('incremental') %}
    {% if done %} {% do return(done) %} {% endif %}
    {% set existing = load_cached_relation(this) %}
    {% set relation = this.incorporate(type='table') %}
    {% set strategy = config.get('incremental_strategy') or 'append' %}
    {% set get_sql = adapter.get_incremental_strategy_macro(context, strategy) %}
    {% set on_schema_change = incremental_validate_on_schema_change(
        config.get('on_schema_change'), default='ignore'
    ) %}

    {{ run_hooks(pre_hooks) }}
    {% set select_sql = icegate_model_select(relation) %}
    {% if existing is none or existing.is_view or should_full_refresh() %}
        {% do icegate_replace_table(relation, existing, select_sql) %}
    {% else %}
        {% set batch = icegate_temp_relation(relation) %}
        {% call statement('batch') %}
            {{ create_table_as(True, batch, select_sql) }}
        {% endcall %}
        {% do icegate_reconcile_table(relation, batch, on_schema_change) %}
        {% set columns = adapter.get_columns_in_relation(
            relation if on_schema_change == 'ignore' else batch
        ) %}
        {#- Without a `false` in it no plan is empty, and asking would cost a second planning. -#}
        {% set may_be_empty = strategy == 'append' and 'false' in select_sql | lower %}
        {% if may_be_empty and adapter.batches().is_known_empty(batch.identifier) %}
            {% do store_raw_result('main', message='OK, nothing new', code='OK', rows_affected='0') %}
        {% else %}
            {% do icegate_write(batch, get_sql({
                'target_relation': relation,
                'temp_relation': batch,
                'unique_key': config.get('unique_key'),
                'dest_columns': columns,
                'incremental_predicates': config.get('predicates')
                    or config.get('incremental_predicates'),
            })) %}
        {% endif %}
    {% endif %}
    {% do icegate_finish(relation, existing) %}

    {{ return({'relations': [relation]}) }}
{% endmaterialization %}

{#- Run the one statement that changes a table's rows; `batch` is what it reads. -#}
{% macro icegate_write(batch, sql) %}
    {% do write(sql) %}
    {% do store_result('main', adapter.batches().write(sql, batch, model), none) %}
{% endmacro %}

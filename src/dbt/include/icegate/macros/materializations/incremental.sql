{% materialization incremental, adapter='icegate', supported_languages=['sql', 'python'] %}
    {% set existing = load_cached_relation(this) %}
    {% set relation = this.incorporate(type='table') %}
    {% set strategy = icegate_strategy() %}

    {{ run_hooks(pre_hooks) }}
    {% set select_sql = icegate_model_select(relation) %}
    {% if existing is none or existing.is_view or should_full_refresh() %}
        {% do icegate_replace_table(relation, existing, select_sql) %}
    {% else %}
        {% set batch = icegate_temp_relation(relation) %}
        {% call statement('batch') %}
            {{ create_table_as(True, batch, select_sql) }}
        {% endcall %}
        {% set on_schema_change = incremental_validate_on_schema_change(
            config.get('on_schema_change'), default='ignore'
        ) %}
        {% do process_schema_changes(on_schema_change, batch, relation) %}
        {% if strategy == 'append' and adapter.is_known_empty(batch.identifier) %}
            {% do store_raw_result('main', message='OK, nothing new', code='OK', rows_affected='0') %}
        {% else %}
            {% call statement('main') %}
                {{ icegate_incremental_sql(strategy, batch, relation) }}
            {% endcall %}
        {% endif %}
    {% endif %}
    {% do icegate_finish(relation, existing) %}

    {{ return({'relations': [relation]}) }}
{% endmaterialization %}

{% macro icegate_strategy() %}
    {% set strategy = config.get('incremental_strategy') or 'append' %}
    {% set known = ['append', 'merge', 'insert_overwrite', 'microbatch'] %}
    {% if strategy not in known %}
        {% do exceptions.raise_compiler_error(
            "unknown incremental_strategy '" ~ strategy ~ "': one of " ~ known | join(', ')
        ) %}
    {% endif %}
    {% do return(strategy) %}
{% endmacro %}

{% macro icegate_incremental_sql(strategy, batch, relation) %}
    {% if strategy == 'merge' %}
        {{ get_merge_sql(
            relation, batch, config.get('unique_key'), none,
            config.get('predicates') or config.get('incremental_predicates')
        ) }}
    {% else %}
        {% if strategy != 'append' and config.get('partition_by') %}
            {% call statement() %}
                set spark.sql.sources.partitionOverwriteMode = dynamic
            {% endcall %}
        {% endif %}
        {% set columns = adapter.get_columns_in_relation(relation) %}
        insert {{ 'into' if strategy == 'append' else 'overwrite' }} {{ relation }}
        select {{ columns | map(attribute='quoted') | join(', ') }} from {{ batch }}
    {% endif %}
{% endmacro %}

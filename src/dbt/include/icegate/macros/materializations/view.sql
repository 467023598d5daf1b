{% materialization view, adapter='icegate' %}
    {% set done = icegate_done() %}
    {% if done %} {% do return(done) %} {% endif %}
    {% set existing = load_cached_relation(this) %}
    {% set relation = this.incorporate(type='view') %}

    {{ run_hooks(pre_hooks) }}
    {% do icegate_replace_view(relation, existing, sql) %}
    {% do icegate_finish(relation, existing) %}

    {{ return({'relations': [relation]}) }}
{% endmaterialization %}

{#- A table of that name gives way only once Spark has accepted the view. -#}
{% macro icegate_replace_view(relation, existing, select_sql) %}
    {% do adapter.tables().check_model(model) %}
    {% do adapter.tables().check_grants(relation, config.get('grants')) %}
    {% if adapter.gate().changes_view(model, existing, select_sql) %}
        {% do adapter.gate().stage(model) %}
    {% endif %}
    {% set in_place = not adapter.gate().is_staged(model) %}
    {% set is_table = existing is not none and existing.is_table and in_place %}
    {% set built = icegate_beside(relation, 'view') if is_table else relation %}
    {% call statement('main') %}
        {{ get_create_view_as_sql(built, select_sql) }}
    {% endcall %}
    {% if is_table %}
        {% do adapter.drop_relation(existing) %}
        {% do adapter.rename_relation(built, relation) %}
    {% endif %}
{% endmacro %}

{% materialization materialized_view, adapter='icegate' %}
    {% do exceptions.raise_compiler_error(
        'model ' ~ model['name'] ~ ' is a materialized_view'
        ~ '\n  why: Spark has none on Iceberg'
        ~ '\n  fix: materialized: table rebuilds it in each run, incremental adds what is new'
    ) %}
{% endmaterialization %}

{#- Each version of each row of one table, from the snapshots that readers had of it. -#}
{% materialization history, adapter='icegate' %}
    {% set done = icegate_done() %}
    {% if done %} {% do return(done) %} {% endif %}
    {% set existing = load_cached_relation(this) %}
    {% set relation = this.incorporate(type='table') %}
    {% set is_new = existing is none or existing.is_view %}

    {{ run_hooks(pre_hooks) }}
    {% do icegate_check_configs(relation) %}
    {% set history = adapter.history(model, relation, compiled_code) %}
    {% set parts = history.parts(is_new) %}
    {% if is_new %}
        {% set versions = history.past.first(parts[0] if parts else none) %}
        {% do icegate_replace_table(relation, existing, versions) %}
    {% elif not parts %}
        {% do store_raw_result('main', message='OK, nothing new', code='OK', rows_affected='0') %}
    {% endif %}
    {% for part in (parts[1:] if is_new else parts) %}
        {% do icegate_add_history(relation, history, part) %}
    {% endfor %}
    {% do history.end(is_new) %}
    {% do icegate_finish(relation, existing) %}

    {{ return({'relations': [relation]}) }}
{% endmaterialization %}

{% macro icegate_add_history(relation, history, part) %}
    {% set batch = icegate_temp_relation(relation) %}
    {% set events = batch.identifier ~ '__events' %}
    {% set versions = history.hold(part, events) %}
    {% call statement('batch') %}
        {{ create_table_as(True, batch, versions) }}
    {% endcall %}
    {% set renames = history.renames() %}
    {% if adapter.gate().must_stage(model, renames) %}
        {% do adapter.gate().stage(model) %}
    {% endif %}
    {% do icegate_alter_table(relation, renames) %}
    {% do icegate_reconcile_table(relation, batch, 'append_new_columns') %}
    {% do icegate_write(batch, history.statement(events, icegate_wanted())) %}
{% endmacro %}

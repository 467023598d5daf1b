{#- What comes before the last statement has run when this returns that. -#}
{% macro icegate__get_merge_sql(target, source, unique_key, dest_columns, incremental_predicates) %}
    {% do return(adapter.batches().merge(model, {
        'target_relation': target, 'temp_relation': source, 'unique_key': unique_key,
        'dest_columns': dest_columns, 'incremental_predicates': incremental_predicates,
    }, table_profiles())) %}
{% endmacro %}

{#- The rows of `sql` as a source for a merge: held where Spark would compute them twice. -#}
{% macro icegate_held(batch, sql) %}
    {% if not adapter.batches().rewrites_files(model, table_profiles()) %}
        {% do return('(' ~ sql ~ ')') %}
    {% endif %}
    {% set view = batch.identifier ~ '__held' %}
    {% do adapter.batches().hold(view, sql) %}
    {% do return(view) %}
{% endmacro %}

{#- A temporary view's name has no schema, so it carries it: two models may share an alias. -#}
{% macro icegate_temp_relation(relation, suffix='__dbt_tmp') %}
    {% set name = relation.schema ~ '__' ~ relation.identifier ~ suffix %}
    {% do return(api.Relation.create(identifier=name, type='view').include(schema=false)) %}
{% endmacro %}

{#- The select of a model: its SQL, or a view over what its Python returned. -#}
{% macro icegate_model_select(relation) %}
    {% if model['language'] != 'python' %}
        {% do return(compiled_code) %}
    {% endif %}
    {% set view = icegate_temp_relation(relation, '__dbt_py') %}
    {% do adapter.run_python_model(model, compiled_code, view.identifier) %}
    {% do return('select * from ' ~ view) %}
{% endmacro %}

{#-
    Put a select's rows into a table as one step: readers see the old table, then the new one,
    and its snapshots stay. A view of that name gives way only once the table is there.
-#}
{% macro icegate_replace_table(relation, existing, select_sql) %}
    {% set is_view = existing is not none and existing.is_view %}
    {% set built = relation %}
    {% if is_view %}
        {% set built = relation.incorporate(
            path={'identifier': relation.identifier ~ '__dbt_new'}, type='table'
        ) %}
    {% endif %}
    {% call statement('main') %}
        {{ create_table_as(False, built, select_sql) }}
    {% endcall %}
    {% if is_view %}
        {% do adapter.drop_relation(existing) %}
        {% do adapter.rename_relation(built, relation) %}
    {% endif %}
    {% do icegate_sort_table(relation) %}
{% endmacro %}

{#-
    Later writes sort their files by it; what is written already stays as it is. `locally` leaves
    `write.distribution-mode` to the table profile.
-#}
{% macro icegate_sort_table(relation) %}
    {% set sort_by = config.get('sort_by') %}
    {% if sort_by %}
        {% set columns = [sort_by] if sort_by is string else sort_by %}
        {% call statement() %}
            alter table {{ relation }} write locally ordered by {{ columns | join(', ') }}
        {% endcall %}
    {% endif %}
{% endmacro %}

{% macro icegate_finish(relation, existing) %}
    {% do apply_grants(relation, config.get('grants'), should_revoke(existing, True)) %}
    {% do persist_docs(relation, model) %}
    {{ run_hooks(post_hooks) }}
{% endmacro %}

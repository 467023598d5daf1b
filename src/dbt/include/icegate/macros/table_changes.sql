{#- Properties, partitioning, sort order, comments and columns of a table that is already there. -#}

{#-
    Bring a table to what its model's configs say, and with a batch to its columns, by one read and
    no statement more when nothing changed. Raises before it changes anything.
-#}
{% macro icegate_reconcile_table(relation, batch=none, on_schema_change='ignore') %}
    {% do adapter.gate().open_branch(model) %}
    {% set state = adapter.tables().state(relation) %}
    {% set changes = adapter.tables().reconcile(state, icegate_wanted(), batch, on_schema_change) %}
    {% if adapter.gate().must_stage(model, changes) %}
        {% do adapter.gate().stage(model) %}
        {% set changes = adapter.tables().reconcile(
            adapter.tables().state(relation), icegate_wanted(), batch, on_schema_change
        ) %}
    {% endif %}
    {% do icegate_alter_table(relation, changes) %}
{% endmacro %}

{#- In dbt's words, for a column that the YAML describes and the model doesn't have. -#}
{% macro icegate_warn_of_missing(relation, names) %}
    {% set missing = icegate_wanted().missing(names) %}
    {% if missing %}
        {% do exceptions.warn(
            'In relation ' ~ relation.render() ~ ': The following columns are specified in the '
            ~ 'schema but are not present in the database: ' ~ missing | join(', ')
        ) %}
    {% endif %}
{% endmacro %}

{% macro icegate_wanted() %}
    {% do return(adapter.tables().wanted(model, table_profiles())) %}
{% endmacro %}

{#- Each change that a person asked for leaves one line in dbt's output. -#}
{% macro icegate_alter_table(relation, changes) %}
    {% for change in changes %}
        {% call statement() %}
            alter table {{ relation }} {{ change.sql }}
        {% endcall %}
        {% if change.log %}
            {% do log('altered table=' ~ relation ~ ' ' ~ change.log, info=True) %}
        {% endif %}
    {% endfor %}
{% endmacro %}

{#- Instead of dbt's: nested columns, widening, comments of new columns, errors that say why. -#}
{% macro icegate__process_schema_changes(on_schema_change, source_relation, target_relation) %}
    {% if on_schema_change == 'ignore' %}
        {% do return({}) %}
    {% endif %}
    {% do icegate_reconcile_table(target_relation, source_relation, on_schema_change) %}
    {% do return(adapter.get_columns_in_relation(source_relation)) %}
{% endmacro %}

{#- Comments of a table are its materialization's work; this serves macros that call dbt's name. -#}
{% macro icegate__persist_docs(relation, model, for_relation, for_columns) %}
    {% set wanted = config.persist_relation_docs() or config.persist_column_docs() %}
    {% if relation.is_view or not wanted %}
        {% do return(none) %}
    {% endif %}
    {% if icegate_is_other_format() %}
        {% do return(spark__persist_docs(relation, model, for_relation, for_columns)) %}
    {% endif %}
    {% set state = adapter.tables().state(relation) %}
    {% do icegate_warn_of_missing(relation, state.columns | map(attribute='name')) %}
    {% set changes = adapter.tables().comment_changes(state, icegate_wanted()) %}
    {% do icegate_alter_table(relation, changes) %}
{% endmacro %}

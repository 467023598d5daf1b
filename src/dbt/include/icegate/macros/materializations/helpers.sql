{#- What a node returns that writes nothing: unchanged, or of a format that dbt-spark writes. -#}
{% macro icegate_done(in_stock=none) %}
    {% if in_stock and icegate_is_other_format() %}
        {% do return(icegate_as_in_stock(in_stock)) %}
    {% endif %}
    {% set unchanged = adapter.unchanged().look(model) %}
    {% if unchanged %}
        {% do store_raw_result('main', message=unchanged, code='OK', rows_affected='0') %}
        {% do return({'relations': [load_cached_relation(this) or this]}) %}
    {% endif %}
    {% do return(none) %}
{% endmacro %}

{#-
    A temporary view belongs to the whole session, so its name tells schema, table and batch apart:
    by a hash, since `a__b.c` and `a.b__c` would meet, and a long name would be cut.
-#}
{% macro icegate_temp_relation(relation, suffix='__dbt_tmp') %}
    {% set batch = (model.get('batch') or {}).get('id', '') %}
    {% set hash = local_md5([relation.schema, relation.identifier, batch] | tojson)[:12] %}
    {% set name = relation.identifier[:60] ~ '_' ~ hash ~ suffix %}
    {% do return(api.Relation.create(identifier=name, type='view').include(schema=false)) %}
{% endmacro %}

{#-
    The select of a model: its SQL, or a view over what its Python returned; with a contract, checked.
    What the configs get wrong is said here, before anything runs or is written.
-#}
{% macro icegate_model_select(relation) %}
    {% do icegate_check_configs(relation) %}
    {% if config.get('sql_header') %}
        {% call statement('sql_header') %}
            {{ config.get('sql_header') }}
        {% endcall %}
    {% endif %}
    {% set select_sql = compiled_code %}
    {% if model['language'] == 'python' %}
        {% set view = icegate_temp_relation(relation, '__dbt_py') %}
        {% do adapter.run_python_model(model, compiled_code, view.identifier) %}
        {% set select_sql = 'select * from ' ~ view %}
    {% endif %}
    {% if config.get('incremental_strategy') == 'microbatch' and model.get('batch') %}
        {% set select_sql = icegate_only_in_window(select_sql) %}
    {% endif %}
    {% if config.get('quarantine') %}
        {% set held = adapter.quarantine(model, relation, icegate_temp_relation(relation, '__split')) %}
        {% set select_sql = held.split(select_sql, is_incremental()) %}
    {% endif %}
    {% if icegate_is_contracted() %}
        {% set select_sql = icegate_contracted_select(select_sql) %}
    {% endif %}
    {% do return(select_sql) %}
{% endmacro %}

{% macro icegate_check_configs(relation) %}
    {% do icegate_wanted() %}
    {% do adapter.tables().check_grants(relation, config.get('grants')) %}
{% endmacro %}

{#-
    Put a select's rows into a table as one step: readers see the old table, then the new one,
    and its snapshots stay. A view of that name gives way only once the table is there.
-#}
{% macro icegate_replace_table(relation, existing, select_sql) %}
    {% set existing = adapter.gate().replaced(model, relation, existing) %}
    {% set is_view = existing is not none and existing.is_view %}
    {% set built = icegate_beside(relation) if is_view else relation %}
    {% set stays = existing is not none and not is_view %}
    {% do adapter.gate().open_branch(model) if stays %}
    {% set state = adapter.tables().state(relation) if stays else none %}
    {% set not_null = adapter.tables().not_null(model) if icegate_is_contracted() else [] %}
    {% set way, columns = adapter.tables().plan(icegate_wanted(), state, select_sql, not_null) %}
    {% do icegate_warn_of_missing(relation, columns | map('first')) %}
    {% if way == 'stage' %}
        {% do adapter.gate().stage(model) %}
    {% endif %}
    {% if way == 'fill' %}
        {% do icegate_fill_new_table(built, columns, not_null, select_sql) %}
    {% elif way == 'refill' %}
        {% do icegate_refill_table(relation, state, select_sql) %}
    {% else %}
        {% do icegate_alter_table(relation, adapter.tables().renames(state, icegate_wanted())) %}
        {% call statement('main') %}
            {{ icegate_create_table_as(built, select_sql) }}
        {% endcall %}
        {% do icegate_alter_table(
            built, adapter.tables().changes_after_replace(state, icegate_wanted(), columns)
        ) %}
    {% endif %}
    {% if is_view %}
        {% do adapter.drop_relation(existing) %}
        {% do adapter.rename_relation(built, relation) %}
    {% endif %}
{% endmacro %}

{% macro icegate_beside(relation, type='table') %}
    {% set identifier = relation.identifier ~ '__dbt_new' %}
    {% do return(relation.incorporate(path={'identifier': identifier}, type=type)) %}
{% endmacro %}

{#- `replace where true` is one step as `create or replace` is, and keeps what the table has. -#}
{% macro icegate_refill_table(relation, state, select_sql) %}
    {% do icegate_alter_table(relation, adapter.tables().reconcile(state, icegate_wanted())) %}
    {% call statement('main') %}
        insert into {{ relation }} replace where true
        {{ select_sql }}
    {% endcall %}
{% endmacro %}

{#- A table of the model's name is new here, so nobody misses it if the rows don't arrive. -#}
{% macro icegate_fill_new_table(relation, columns, not_null, select_sql) %}
    {% set wanted = icegate_wanted() %}
    {% set create %}
        create or replace table {{ relation }} (
            {{ adapter.tables().column_ddl(columns, not_null, wanted) | join(',\n            ') }}
        )
        {{ icegate_table_clauses() }}
    {% endset %}
    {% set fill %}
        insert into {{ relation }}
        {{ select_sql }}
    {% endset %}
    {% do write(create ~ ';' ~ fill) %}
    {% set response = adapter.tables().create_and_fill(relation, wanted, create, fill) %}
    {% do store_result('main', response, none) %}
{% endmacro %}

{% macro icegate_finish(relation, existing) %}
    {% do apply_grants(relation, config.get('grants'), should_revoke(existing, True)) %}
    {{ run_hooks(post_hooks) }}
{% endmacro %}

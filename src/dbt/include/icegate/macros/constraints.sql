{% macro icegate_is_contracted() %}
    {% set contract = config.get('contract') %}
    {% do return((contract is not none and contract.enforced) or config.get('enforce_schema')) %}
{% endmacro %}

{#- The columns of the YAML in their order; a row that breaks a constraint stops the write. -#}
{% macro icegate_contracted_select(select_sql) %}
    {% do icegate_assert_columns(select_sql) %}
    select
    {%- for item in adapter.tables().checked_columns(model) %}
        {{ item }}{{ ',' if not loop.last }}
    {%- endfor %}
    from (
        {{ select_sql }}
    ) as model_subq
{% endmacro %}

{#- dbt's comparison and message. A macro of its own: what it renders must not reach the select. -#}
{% macro icegate_assert_columns(select_sql) %}
    {% set nothing = get_assert_columns_equivalent(select_sql) %}
{% endmacro %}

{#- Spark takes one statement at a time: a `sql_header` ran on its own before. -#}
{% macro icegate__get_empty_subquery_sql(select_sql, select_sql_header=none) %}
    select * from (
        {{ select_sql }}
    ) as __dbt_sbq where false limit 0
{% endmacro %}

{# A branch at what readers have now, unless there is one; with `retain_days` it goes when it's as
   old. Write to it as to `schema.table.branch_<name>`. #}
{% macro create_branch(table, name, retain_days=none) %}
    {{ return(create_ref('branch', table, name, retain_days)) }}
{% endmacro %}

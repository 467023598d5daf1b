{# A branch at what readers have now, unless there is one; with `retain_days` it goes when it's as
   old. Of its snapshots the newest `min_snapshots`, and those younger than `snapshot_days`, stay.
   Write to it as to `schema.table.branch_<name>`. #}
{% macro create_branch(table, name, retain_days=none, min_snapshots=none, snapshot_days=none) %}
    {{ return(create_ref('branch', table, name, {
        'retain_days': retain_days, 'min_snapshots': min_snapshots, 'snapshot_days': snapshot_days
    })) }}
{% endmacro %}

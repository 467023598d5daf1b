{# How many rows a branch has, and the sum of their hashes, which is the same in any order. #}
{% macro rows_of_branch(table, branch, where) %}
    {% set found = run_query(
        'select count(*), sum(cast(xxhash64(*) as decimal(38, 0))) from ' ~ iceberg_table(table)
        ~ " version as of '" ~ branch ~ "'" ~ (' where ' ~ where if where else '')
    ) %}
    {{ return(found.rows[0].values()) }}
{% endmacro %}

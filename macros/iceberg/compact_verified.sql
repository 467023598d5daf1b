{# Compact a table on a branch of its own, and publish that if it has the same rows. #}
{% macro compact_verified(table, min_files=none, where=none, sort_by=none, options=none) %}
    {% do refuse_behind_gate('compact_verified') %}
    {% if not execute %}
        {{ return('') }}
    {% endif %}
    {% set given = dict(min_files=min_files, where=where, sort_by=sort_by, options=options) %}
    {% set name, branch = iceberg_table(table), 'compaction' %}
    {% do run_query('alter table ' ~ name ~ ' drop branch if exists ' ~ branch) %}
    {% do iceberg_now(create_branch(table, branch)) %}
    {% set before = rows_of_branch(table, branch, where) %}
    {% do run_query(compaction(table, given, branch)) %}
    {% set after = rows_of_branch(table, branch, where) %}
    {% if before != after %}
        {% do exceptions.raise_compiler_error(
            'compaction of ' ~ name ~ ' changed its rows, and is not published\n'
            '  why: there were ' ~ before[0] ~ ', and on its branch are ' ~ after[0]
            ~ ', or others of as many\n'
            "  fix: look at it, version as of '" ~ branch ~ "'; main is as it was"
        ) %}
    {% endif %}
    {% do iceberg_now(publish_branch(table, branch)) %}
    {% do run_query('alter table ' ~ name ~ ' drop branch ' ~ branch) %}
    {% do log('compacted ' ~ name ~ ': the same ' ~ after[0] ~ ' rows', info=true) %}
    {{ return('') }}
{% endmacro %}

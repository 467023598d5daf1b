{# Write small files together, and delete files into the data that they apply to. In the hook of a
   node that goes through the gate it works on the build's branch, on the rows that it adds. #}
{% macro compact(table, min_files=none, where=none, sort_by=none, options=none) %}
    {% set given = dict(min_files=min_files, where=where, sort_by=sort_by, options=options) %}
    {{ return(iceberg_statement(compaction(table, given, branch_of_build()))) }}
{% endmacro %}

{# Sort the lists of files anew, by partition, so that a reader opens fewer of them. #}
{% macro rewrite_manifests(table) %}
    {% do refuse_behind_gate('rewrite_manifests') %}
    {{ return(iceberg_statement(iceberg_call('rewrite_manifests', table, {}))) }}
{% endmacro %}

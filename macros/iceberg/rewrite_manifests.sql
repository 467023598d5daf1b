{# Sort the lists of files anew, by partition, so that a reader opens fewer of them. #}
{% macro rewrite_manifests(table) %}
    {% do refuse_behind_gate('rewrite_manifests') %}
    {% set table = iceberg_table(table) %}
    {{ return(iceberg_statement("call system.rewrite_manifests(table => '" ~ table ~ "')")) }}
{% endmacro %}

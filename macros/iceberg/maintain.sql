{# Maintain tables as their models' policies say, as `icegate maintain` does. At the end of a run
   `max_gb` keeps it to small tables. #}
{% macro maintain(select=[], max_gb=none) %}
    {% do adapter.tables().maintain(graph.nodes.values(), select, max_gb) if execute %}
    {{ return('') }}
{% endmacro %}

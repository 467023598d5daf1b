{# elementary's tables get a file or two from each run. One question tells how many runs they have
   grown by: its table of runs gets one file from each. Then they are compacted, and snapshots that
   are older than their profile keeps them expire. #}
{% macro maintain_elementary(min_files) %}
    {% set tables = [] %}
    {% set runs = [] %}
    {% set nodes = graph.nodes.values() if execute else [] %}
    {% for node in nodes if node.package_name == 'elementary' %}
        {% if node.config.materialized in ['incremental', 'table'] %}
            {% set table = adapter.get_relation(none, node.schema, node.alias) %}
            {% do tables.append(table) if table %}
            {% do runs.append(table) if table and node.name == 'dbt_invocations' %}
        {% endif %}
    {% endfor %}
    {% set asked = 'select count(*) from ' ~ runs[0] ~ '.files' if runs %}
    {% if runs and run_query(asked).rows[0][0] >= min_files %}
        {% for table in tables %}
            {% do run_query(compact(table, min_files=min_files)) %}
            {% do run_query(expire_snapshots(table)) %}
        {% endfor %}
    {% endif %}
{% endmacro %}

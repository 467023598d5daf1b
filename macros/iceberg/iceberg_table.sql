{# A table's name as SQL has it. What comes from the command line names a model or a table. #}
{% macro iceberg_table(table) %}
    {% if not execute %}
        {{ return('') }}
    {% endif %}
    {% set at = namespace(found=table) %}
    {% if table is string %}
        {% set parts = table.split('.') %}
        {% set at.schema, at.name = parts[:-1] | join('.') or target.schema, parts[-1] %}
        {% for node in graph.nodes.values() if node.name == table and node.relation_name %}
            {% set at.schema, at.name = node.schema, node.alias %}
        {% endfor %}
        {% set at.found = adapter.get_relation(none, at.schema, at.name) %}
    {% endif %}
    {% if at.found is none or at.found.is_view %}
        {% do exceptions.raise_compiler_error(
            "there is no table '" ~ table ~ "'\n"
            "  why: " ~ at.schema ~ " has " ~ ('a view' if at.found else 'nothing')
            ~ " of this name\n"
            "  fix: name a model, or a table as schema.table"
        ) %}
    {% endif %}
    {{ return(at.found.render()) }}
{% endmacro %}

{# Rows that fail a test are kept and shown in the report; none of a model with personal data. #}
{% macro icegate__query_test_result_rows(sample_limit=none, ignore_passed_tests=false) %}
    {% for id in model.depends_on.nodes %}
        {% for column in graph.nodes.get(id, {}).get('columns', {}).values() %}
            {% if (column.get('meta') or {}).get('pii') %}
                {% do return([]) %}
            {% endif %}
        {% endfor %}
    {% endfor %}
    {% do return(elementary.default__query_test_result_rows(sample_limit, ignore_passed_tests)) %}
{% endmacro %}

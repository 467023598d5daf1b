{# What elementary drops by this is a temporary view, which goes with the session. #}
{% macro icegate__fully_drop_relation(relation) %}
    {% if relation.schema %}
        {% do adapter.drop_relation(relation) %}
    {% endif %}
{% endmacro %}

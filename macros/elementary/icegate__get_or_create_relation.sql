{# What a test of elementary scores is read by that test only: a temporary view is enough, and needs
   no schema. `icegate__create_or_replace` makes it. #}
{% macro icegate__get_or_create_relation(database, schema, identifier, type) %}
    {% if '__anomaly_scores__tmp_20' in identifier %}
        {% set view = api.Relation.create(identifier=identifier, type='view') %}
        {% do return([false, view.include(schema=false)]) %}
    {% endif %}
    {% do return(default__get_or_create_relation(database, schema, identifier, type)) %}
{% endmacro %}

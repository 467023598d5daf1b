{# dbt takes a package's own materialization of tests only where the project hands it on. With it
   elementary has rows that failed and how many; without elementary a test is dbt's own. #}
{% materialization test, adapter='icegate' %}
    {% if elementary is defined and elementary.materialize_test is defined %}
        {% do return(elementary.materialize_test(materialization_test_default)) %}
    {% endif %}
    {% do return(materialization_test_default()) %}
{% endmaterialization %}

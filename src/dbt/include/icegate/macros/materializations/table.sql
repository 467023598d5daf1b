{% materialization table, adapter='icegate', supported_languages=['sql', 'python'] %}
    {% set done = icegate_done('table') %}
    {% if done %} {% do return(done) %} {% endif %}
    {% set existing = load_cached_relation(this) %}
    {% set relation = this.incorporate(type='table') %}

    {{ run_hooks(pre_hooks) }}
    {% do icegate_replace_table(relation, existing, icegate_model_select(relation)) %}
    {% do icegate_finish(relation, existing) %}

    {{ return({'relations': [relation]}) }}
{% endmaterialization %}

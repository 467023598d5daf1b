{% materialization table, adapter='icegate', supported_languages=['sql', 'python'] %}
    {% if icegate_is_other_format() %}
        {% do return(icegate_as_in_stock('table')) %}
    {% endif %}
    {% set existing = load_cached_relation(this) %}
    {% set relation = this.incorporate(type='table') %}

    {{ run_hooks(pre_hooks) }}
    {% do icegate_replace_table(relation, existing, icegate_model_select(relation)) %}
    {% do icegate_finish(relation, existing) %}

    {{ return({'relations': [relation]}) }}
{% endmaterialization %}

{#- Two tables over the same files would delete each other's: a clone is a view. -#}
{% macro icegate__can_clone_table() %}
    {% do return(False) %}
{% endmacro %}

{% materialization clone, adapter='icegate' %}
    {% set existing = load_cached_relation(this) %}
    {% if not defer_relation %}
        {% do log('No relation found in state manifest for ' ~ model.unique_id, info=True) %}
        {% do return({'relations': []}) %}
    {% elif existing and not flags.FULL_REFRESH %}
        {% do log('Relation ' ~ existing ~ ' already exists', info=True) %}
        {% do return({'relations': []}) %}
    {% elif this.render() == defer_relation.render() and not existing %}
        {% do exceptions.raise_compiler_error(
            'cannot clone ' ~ this ~ '\n  why: the state is of this very target, which lacks it'
            ~ '\n  fix: build it, or give the state of another target'
        ) %}
    {% elif this.render() == defer_relation.render() %}
        {% do log('The state is of this target, skipping clone for relation: ' ~ this) %}
        {% do return({'relations': []}) %}
    {% endif %}
    {% set view = this.incorporate(type='view') %}
    {% do icegate_replace_view(view, existing, 'select * from ' ~ defer_relation) %}

    {{ return({'relations': [view]}) }}
{% endmaterialization %}

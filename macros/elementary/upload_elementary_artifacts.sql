{# Tell elementary's tables what the project is made of, where that has changed: one question where
   it hasn't. elementary does it by a hook of each of its models, which don't run when they are
   unchanged, and takes them as done. An environment has no such tables. #}
{% macro upload_elementary_artifacts() %}
    {% set is_real = elementary is defined and elementary.is_elementary_enabled is defined %}
    {% set is_production = not env_var('ICEGATE_ENV', '') %}
    {% if execute and is_real and is_production and elementary.is_elementary_enabled() %}
        {% set hashes = elementary.get_artifacts_hashes() %}
        {% for kind in [
            'models', 'tests', 'sources', 'snapshots', 'exposures', 'seeds', 'groups', 'columns',
        ] if hashes is not none %}
            {% do elementary['upload_dbt_' ~ kind](
                should_commit=true, metadata_hashes=hashes.get('dbt_' ~ kind, [])
            ) %}
        {% endfor %}
    {% endif %}
{% endmacro %}

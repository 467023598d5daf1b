{#- No `show grants` where none are configured, and a plain error where the catalog has none. -#}
{% macro icegate__apply_grants(relation, grant_config, should_revoke=True) %}
    {% if grant_config %}
        {% do adapter.tables().check_grants(relation, grant_config) %}
        {% do default__apply_grants(relation, grant_config, should_revoke) %}
    {% endif %}
{% endmacro %}

{# Of elementary's tables of a moment the files go, too. Any other drop is as ever, and leaves files
   to those who want the table back. #}
{% macro icegate__drop_relation(relation) %}
    {% if relation.is_table and '__tmp_20' in relation.identifier %}
        {% do adapter.execute('drop table if exists ' ~ relation ~ ' purge') %}
    {% else %}
        {% do spark__drop_relation(relation) %}
    {% endif %}
{% endmacro %}

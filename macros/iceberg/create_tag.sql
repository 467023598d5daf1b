{# A name for what readers have now, or for another snapshot, unless there is one of this name: the
   snapshot stays for as long as the tag, and is read by `version as of '<name>'`. #}
{% macro create_tag(table, name, retain_days=none, snapshot=none) %}
    {{ return(create_ref('tag', table, name, {
        'snapshot': snapshot, 'retain_days': retain_days
    })) }}
{% endmacro %}

{# How deletes, updates and merges rewrite rows. One mode for all three: a table that mixes them
   pays for both. #}
{% macro row_level_mode(mode, isolation) %}
    {{ return({
        'write.delete.mode': mode,
        'write.update.mode': mode,
        'write.merge.mode': mode,
        'write.delete.isolation-level': isolation,
        'write.update.isolation-level': isolation,
        'write.merge.isolation-level': isolation,
    }) }}
{% endmacro %}

{# How deletes, updates and merges rewrite rows. One mode for all three: a table that mixes them
   pays for both. #}
{% macro row_level_mode(mode, isolation) %}
    {% if isolation not in ['serializable', 'snapshot'] %}
        {% do exceptions.raise_compiler_error(
            "isolation is '" ~ isolation ~ "'\n"
            "  why: Iceberg knows 'serializable' and 'snapshot'\n"
            "  fix: take one of them; 'snapshot' doesn't see rows that others append meanwhile"
        ) %}
    {% endif %}
    {{ return({
        'write.delete.mode': mode,
        'write.update.mode': mode,
        'write.merge.mode': mode,
        'write.delete.isolation-level': isolation,
        'write.update.isolation-level': isolation,
        'write.merge.isolation-level': isolation,
    }) }}
{% endmacro %}

{# A branch or tag at what readers have now, or as `given` says, unless there is one already. #}
{% macro create_ref(kind, table, name, given) %}
    {% set prefix = 'build_' if kind == 'branch' else 'release_' %}
    {% if name.startswith(prefix) or name == 'main' %}
        {% do exceptions.raise_compiler_error(
            "a " ~ kind ~ " can't be called '" ~ name ~ "'\n"
            "  why: the gate's own names begin with " ~ prefix ~ ", and main is what readers read\n"
            "  fix: take another name"
        ) %}
    {% endif %}
    {{ return(iceberg_statement(
        'alter table ' ~ iceberg_table(table) ~ ' create ' ~ kind ~ ' if not exists `' ~ name ~ '`'
        ~ retention(given)
    )) }}
{% endmacro %}

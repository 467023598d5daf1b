{# Move `main` to the end of a branch that began at it; Iceberg refuses where `main` has moved. #}
{% macro publish_branch(table, name) %}
    {% if name.startswith('build_') %}
        {% do exceptions.raise_compiler_error(
            "can't publish branch '" ~ name ~ "'\n"
            "  why: it's the gate's, and its rows reach readers when their tests have passed\n"
            "  fix: icegate release publish " ~ name[6:]
        ) %}
    {% endif %}
    {% set arguments = {'branch': "'main'", 'to': icegate_literal(name)} %}
    {{ return(iceberg_statement(iceberg_call('fast_forward', table, arguments))) }}
{% endmacro %}

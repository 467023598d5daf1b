{# Raise in a hook whose work on `main` the build would take back when it's published. #}
{% macro refuse_behind_gate(what) %}
    {% if branch_of_build() %}
        {% do exceptions.raise_compiler_error(
            what ~ " is in a hook of a node that goes through the gate\n"
            "  why: it works on main, and publishing the build takes that back\n"
            "  fix: run it after the build: dbt run-operation " ~ what ~ " --args '{table: "
            ~ model.name ~ "}'"
        ) %}
    {% endif %}
{% endmacro %}

{% macro standins_are_in_use() %}
    {% if target.name not in ['local', 'connect', 'thrift', 'pr'] %}
        {{ exceptions.raise_compiler_error(
            "stand-ins for dbt_utils and elementary are installed, and target '" ~ target.name
            ~ "' never takes them: run `dbt deps`, without ICEGATE_STANDINS"
        ) }}
    {% endif %}
    {% if execute %}
        {{ log(
            "STAND-INS ARE IN USE: dbt_utils' tests are this repository's own code, "
            ~ "elementary's tests do NOT run",
            info=true
        ) }}
    {% endif %}
{% endmacro %}

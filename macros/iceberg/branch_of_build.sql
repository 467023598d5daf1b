{# The branch of a build that the node of this hook writes to; none where it writes to `main`, or to
   a table that readers don't have yet. #}
{% macro branch_of_build() %}
    {% set gate = adapter.gate() if execute and model is defined and model.unique_id else none %}
    {% set is_branch = gate and gate.holds(model) and not gate.is_staged(model) %}
    {{ return(gate.build.branch if is_branch else none) }}
{% endmacro %}

{# The end of a statement that makes a branch or tag. Iceberg parses its parts in this order only,
   and of a branch's snapshots the number before their age. #}
{% macro retention(given) %}
    {% for name, number in given.items() if number is not none and (number | int) < 1 %}
        {% do exceptions.raise_compiler_error(
            name ~ " is '" ~ number ~ "'\n  why: Iceberg takes a whole number from 1 on\n"
            "  fix: leave it out to keep what the table's own `history.expire.*` say"
        ) %}
    {% endfor %}
    {% set of_snapshots = [
        given.min_snapshots ~ ' snapshots' if given.min_snapshots,
        given.snapshot_days ~ ' days' if given.snapshot_days,
    ] | select | join(' ') %}
    {{ return(
        (' as of version ' ~ given.snapshot if given.snapshot else '')
        ~ (' retain ' ~ given.retain_days ~ ' days' if given.retain_days else '')
        ~ (' with snapshot retention ' ~ of_snapshots if of_snapshots else '')
    ) }}
{% endmacro %}

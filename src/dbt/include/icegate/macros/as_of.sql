{#- A table as it was: `{{ as_of(ref('x'), release=42) }}`, or timestamp=, snapshot=, tag=. -#}
{% macro as_of(relation, release=none, timestamp=none, snapshot=none, tag=none) -%}
    {%- set asked = dict(release=release, timestamp=timestamp, snapshot=snapshot, tag=tag) -%}
    {{- adapter.gate().as_of(relation, asked) if execute else relation -}}
{%- endmacro %}

{#- The rows that differ between two versions, of which the newer one may be left out. -#}
{% macro changes_between(relation, from, to=none, key=none) -%}
    {{- adapter.gate().changes(relation, from, to, key) if execute else relation -}}
{%- endmacro %}

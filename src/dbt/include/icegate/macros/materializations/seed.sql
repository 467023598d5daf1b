{% materialization seed, adapter='icegate' %}
    {% set existing = load_cached_relation(this) %}
    {% set relation = this.incorporate(type='table') %}
    {% set agate_table = load_agate_table() %}
    {% do store_result('agate_table', response='OK', agate_table=agate_table) %}
    {% set done = icegate_done() %}
    {% if done %} {% do return(done) %} {% endif %}

    {% do icegate_check_configs(relation) %}
    {{ run_hooks(pre_hooks) }}
    {% set view = icegate_temp_relation(relation, '__dbt_seed') %}
    {% do adapter.seed_view(agate_table, view.identifier) %}
    {% set select_sql = icegate_seed_select(agate_table, view) %}
    {% if icegate_is_other_format() %}
        {% do icegate_seed_in_other_format(relation, existing, select_sql) %}
    {% else %}
        {% do icegate_replace_table(relation, existing, select_sql) %}
    {% endif %}
    {% do icegate_finish(relation, existing) %}

    {{ return({'relations': [relation]}) }}
{% endmaterialization %}

{#- Cells arrive as text; one that has another type than its column stops the seed, ANSI or not. -#}
{% macro icegate_seed_select(agate_table, view) %}
    {% set types = config.get('column_types', {}) %}
    select
    {%- for name in agate_table.column_names %}
        {%- set quoted = adapter.quote(name) %}
        {%- set type = types.get(name, adapter.convert_type(agate_table, loop.index0)) %}
        {%- if type | lower in ['string', 'text'] or 'char' in type | lower %}
        cast({{ quoted }} as string) as {{ quoted }}
        {%- else %}
        if(
            {{ quoted }} is not null and try_cast({{ quoted }} as {{ type }}) is null,
            raise_error(concat({{ icegate_literal(
                'column ' ~ name ~ ' of seed ' ~ model['name'] ~ ' is not ' ~ type ~ ': '
            ) }}, {{ quoted }}, {{ icegate_literal(
                '\n  fix: correct the cell, or set column_types; the table is as it was'
            ) }})),
            try_cast({{ quoted }} as {{ type }})
        ) as {{ quoted }}
        {%- endif %}
        {{- ',' if not loop.last }}
    {%- endfor %}
    from {{ view }}
{% endmacro %}

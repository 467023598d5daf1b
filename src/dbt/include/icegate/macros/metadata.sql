{#- Listing, docs and freshness on catalogs that metadata.py can't read itself. -#}

{#- A temporary view is listed with every schema: it has no namespace. -#}
{% macro icegate_show_tables(schema_relation) %}
    {% call statement('show_tables', fetch_result=True) %}
        show tables in {{ schema_relation.schema }}
    {% endcall %}
    {% do return(load_result('show_tables').table) %}
{% endmacro %}

{% macro icegate_show_views(schema_relation) %}
    {% call statement('show_views', fetch_result=True) %}
        show views in {{ schema_relation.schema }}
    {% endcall %}
    {% do return(load_result('show_views').table) %}
{% endmacro %}

{#-
    A row for each Iceberg table: its current snapshot's summary, and when a snapshot on `main` last
    changed rows. Compaction (`replace`) and snapshots without rows change nothing.
-#}
{% macro icegate_table_histories(relations) %}
    {% call statement('table_histories', fetch_result=True) %}
        {% for relation in relations %}
        select
            {{ icegate_literal(relation.schema) }} as table_schema,
            {{ icegate_literal(relation.identifier) }} as table_name,
            to_json(max_by(snapshots.summary, history.made_current_at)) as summary,
            unix_millis(max(snapshots.committed_at) filter (
                where {{ icegate_changed_rows() }}
            )) as changed_ms
        from {{ relation }}.history as history
        inner join {{ relation }}.snapshots as snapshots
            on history.snapshot_id = snapshots.snapshot_id
        where history.is_current_ancestor
        {{ 'union all' if not loop.last }}
        {% endfor %}
    {% endcall %}
    {% do return(load_result('table_histories').table) %}
{% endmacro %}

{% macro icegate_changed_rows() %}
    {%- set keys = [
        'added-records', 'deleted-records', 'added-delete-files', 'removed-delete-files'
    ] %}
    snapshots.operation <> 'replace'
    and (
        {%- for key in keys %}
        coalesce(cast(snapshots.summary['{{ key }}'] as bigint), 0) > 0{{ ' or' if not loop.last }}
        {%- endfor %}
    )
{% endmacro %}

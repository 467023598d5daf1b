{# elementary drops the schema from the name, for temporary views. This is a table, and one without
   a schema lies in the root of the catalog, which many catalogs don't have. #}
{% macro icegate__edr_make_intermediate_relation(base_relation) %}
    {% set suffix = elementary.get_timestamped_table_suffix() %}
    {% do return(base_relation.incorporate(
        path={'identifier': elementary.table_name_with_suffix(base_relation.identifier, suffix)},
        type='table',
    )) %}
{% endmacro %}

{# Properties for a table whose changed rows are marked in delete files: quick to change, and slower
   to read until it's compacted. With Iceberg's format 3 the marks are deletion vectors. #}
{% macro merge_on_read(isolation='snapshot') %}
    {{ return(row_level_mode('merge-on-read', isolation)) }}
{% endmacro %}

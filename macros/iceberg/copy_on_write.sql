{# Properties for a table whose rows are replaced by rewriting their files: slow to change, as quick
   to read as it can be, and its changes can be read as a change log. #}
{% macro copy_on_write(isolation='serializable') %}
    {{ return(row_level_mode('copy-on-write', isolation)) }}
{% endmacro %}

{# One statement that replaces all rows, where elementary's own are a merge and an insert: of two
   builds at once the merge fails, or both insert the same. Here the last one wins, with what it has
   seen to be there; what it hasn't seen, the next build finds missing and adds. #}
{% macro icegate__get_delete_and_insert_queries(
    relation, insert_relation, delete_relation, delete_column_key
) %}
    {% set key = delete_column_key %}
    {% set gone = [delete_relation, insert_relation] | select | list %}
    {% set query %}
        insert into {{ relation }} replace where true
        select * from {{ relation }}
        where {{ key }} is not null
        {%- for keys in gone %}
            and {{ key }} not in (select {{ key }} from {{ keys }})
        {%- endfor %}
        {%- if insert_relation %}
        union all
        select * from {{ insert_relation }}
        {%- endif %}
    {% endset %}
    {% do return([query]) %}
{% endmacro %}

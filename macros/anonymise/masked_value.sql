{# Marks what `value` gives as masked: the lineage of personal data ends here. Spark folds the mark
   away, and no query has one by accident, as it might have a comment. #}
{% macro masked_value(value) -%}
nvl2('icegate: masked', {{ value }}, null)
{%- endmacro %}

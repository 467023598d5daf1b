{# A file's rows reach bronze in one commit, so a file that is here is here with all its rows. #}
{% macro rejected_rows(bronze) %}
select
    rejected.column_name,
    rejected.raw_value,
    rejected.reason,
    arrived.raw_text,
    arrived.loaded_from,
    arrived.ingested_at
from {{ bronze }} as arrived
lateral view explode(arrived.rejected_values) exploded as rejected
where
    arrived.rejected_values is not null
    {% if is_incremental() %}
        and arrived.loaded_from not in (select known.loaded_from from {{ this }} as known)
    {% endif %}
{%- endmacro %}

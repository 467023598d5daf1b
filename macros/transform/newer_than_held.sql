{# An old version that arrives late must not overwrite a newer one; nor does an unchanged row need
   to be written again. For incremental runs only: it reads this model's table. #}
{% macro newer_than_held(row, key, newest_by) %}
not exists (
    select 1 from {{ this }} as held
    where
        held.{{ key }} = {{ row }}.{{ key }}
        and struct(held.{{ newest_by | join(', held.') }})
        >= struct({{ row }}.{{ newest_by | join(', ' ~ row ~ '.') }})
)
{%- endmacro %}

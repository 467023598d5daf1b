{# Every row of `upstream` is in this model by its key, or has one of the reasons to be left out.
   A null key can't be found again, so its row counts as lost; a null condition is no reason. #}
{% test no_data_loss(model, upstream, key, allowed={}) %}
select upstream.{{ key | join(', upstream.') }}
from {{ upstream }} as upstream
left anti join {{ model }} as kept
    on
        {% for column in key -%}
            {{ 'and ' if not loop.first }}upstream.{{ column }} = kept.{{ column }}
        {% endfor %}
where true
    {%- for reason, condition in allowed.items() %}
    and not coalesce(({{ condition }}), false)  -- {{ reason }}
    {%- endfor %}
{% endtest %}

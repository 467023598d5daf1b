{# The call that compacts a table, on a branch if one is given. Without the first two options delete
   files that apply to nothing stay, and a group of files that met a writer takes all others with it. #}
{% macro compaction(table, given, branch=none) %}
    {% set options = {'remove-dangling-deletes': true, 'partial-progress.enabled': true} %}
    {% do options.update({'min-input-files': given.min_files}) if given.min_files %}
    {% do options.update(given.options or {}) %}
    {% set pairs = [] %}
    {% for name, value in options.items() %}
        {% do pairs.append("'" ~ name ~ "', '" ~ (value | string | lower) ~ "'") %}
    {% endfor %}
    {% set call = [
        "table => '" ~ iceberg_table(table) ~ "'", 'options => map(' ~ pairs | join(', ') ~ ')'
    ] %}
    {% do call.append("branch => '" ~ branch ~ "'") if branch %}
    {% if given.where %}
        {% do call.append("where => '" ~ (given.where | replace("'", "\\'")) ~ "'") %}
    {% endif %}
    {% if given.sort_by %}
        {% do call.append("strategy => 'sort', sort_order => '" ~ given.sort_by ~ "'") %}
    {% endif %}
    {{ return('call system.rewrite_data_files(' ~ call | join(', ') ~ ')') }}
{% endmacro %}

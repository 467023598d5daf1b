{# The call that compacts a table, on a branch if one is given. Without the first two options delete
   files that apply to nothing stay, and a group of files that met a writer takes all others with it. #}
{% macro compaction(table, given, branch=none) %}
    {% set options = {'remove-dangling-deletes': true, 'partial-progress.enabled': true} %}
    {% do options.update({'min-input-files': given.min_files}) if given.min_files %}
    {% do options.update(given.options or {}) %}
    {% set pairs = [] %}
    {% for name, value in options.items() %}
        {% do pairs.append(icegate_literal(name)) %}
        {% do pairs.append(icegate_literal(value | string | lower)) %}
    {% endfor %}
    {{ return(iceberg_call('rewrite_data_files', table, {
        'options': 'map(' ~ pairs | join(', ') ~ ')',
        'branch': icegate_literal(branch) if branch else none,
        'where': icegate_literal(given.where) if given.where else none,
        'strategy': "'sort'" if given.sort_by else none,
        'sort_order': icegate_literal(given.sort_by) if given.sort_by else none,
    })) }}
{% endmacro %}

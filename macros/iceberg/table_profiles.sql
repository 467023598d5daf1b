{# Iceberg properties by the name that `+table_profile` gives; docs/table-profiles.md has the
   reasons. A model's own `tblproperties` win, and a name that Iceberg doesn't know is refused. #}
{% macro table_profiles() %}
    {%- set common = {
        'write.parquet.compression-codec': 'zstd',
        'write.metadata.delete-after-commit.enabled': 'true',
        'write.metadata.previous-versions-max': '50',
        'history.expire.max-snapshot-age-ms': '604800000',
        'history.expire.min-snapshots-to-keep': '10',
        'write.distribution-mode': 'hash',
        'commit.retry.total-timeout-ms': '1800000',
    } -%}
    {%- set many_writers = dict(common, **{
        'commit.retry.num-retries': '10',
        'commit.retry.min-wait-ms': '100',
        'commit.retry.max-wait-ms': '10000',
    }) -%}
    {%- set one_writer = dict(common, **{
        'commit.retry.num-retries': '4',
        'commit.retry.min-wait-ms': '1000',
        'commit.retry.max-wait-ms': '60000',
    }) -%}
    {{ return({
        'append_log': many_writers,
        'streaming_target': dict(many_writers, **merge_on_read()),
        'batch_merge': dict(one_writer, **copy_on_write()),
        'changelog_source': dict(one_writer, **copy_on_write()),
        'rebuilt': dict(one_writer, **{'write.distribution-mode': 'range'}),
    }) }}
{% endmacro %}

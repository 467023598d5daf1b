{{ config(enabled=false) }}
-- dbt warns of a config that meets no model; the project's `models: elementary:` meets this one.
select 1 as never_built

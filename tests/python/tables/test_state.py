"""A table's state is the same from its metadata file and from `show create table`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from icegate.catalog import list_relations, read_metadata
from icegate.settings import Lake
from icegate.tables.layout import as_terms, partition_fields, sort_fields
from icegate.tables.schema import same_columns
from icegate.tables.state import TableState, parse_state, state_from_metadata

# What only one of them has, or writes in its own way.
OWN = ("format", "current-snapshot-id", "sort-order", "owner", "comment")


def comparable(state: TableState) -> Any:
    properties = {k: v for k, v in state.properties.items() if k not in OWN}
    sort = sort_fields(as_terms(state.properties.get("sort-order")), "the table")
    partitions = set(partition_fields(state.partitions, "the table"))
    return replace(state, columns=(), partitions=(), properties=properties), partitions, sort


def test_both_ways_to_a_state_agree(lake: Lake, spark: Any) -> None:
    spark.sql("create schema if not exists lake.states")
    spark.sql(
        """create or replace table lake.states.everything (
            id bigint not null comment 'it''s the "key"',
            `odd name` string,
            at timestamp,
            amount decimal(12, 2) comment 'a \\\\ and a comma, here',
            place struct<city: string comment 'where', zip: int>,
            tags array<string>,
            notes map<string, struct<x: double>>
        ) using iceberg
        partitioned by (days(at), bucket(8, id), truncate(4, place.city), `odd name`)
        comment 'all, of it'
        tblproperties ('write.merge.mode' = 'merge-on-read', 'owner-team' = 'a=b, c')"""
    )
    spark.sql("alter table lake.states.everything write locally ordered by id desc, hours(at)")
    spark.sql("alter table lake.states.everything drop partition field bucket(8, id)")
    shown = parse_state(spark.sql("show create table lake.states.everything").first()[0])
    entry = next(e for e in list_relations(lake) if e.full_name == "states.everything")
    read = state_from_metadata(read_metadata(entry))
    assert comparable(read) == comparable(shown)
    assert same_columns(
        [(c.name, c.type) for c in read.columns], [(c.name, c.type) for c in shown.columns]
    )
    kept = [(c.name, c.nullable, c.comment) for c in read.columns]
    assert kept == [(c.name, c.nullable, c.comment) for c in shown.columns]
    assert len(comparable(read)[1]) == 3 and len(comparable(read)[2]) == 2

"""What datacompy finds between two snapshots of a table, which PyIceberg reads for it."""

from __future__ import annotations

import json
import sys

import datacompy
import polars
from pyiceberg.catalog.sql import SqlCatalog


def main(catalog: str, table: str, *snapshots: str) -> None:
    opened = SqlCatalog("lake", uri=f"sqlite:///{catalog}").load_table(table)
    old, new = (polars.from_arrow(opened.scan(snapshot_id=int(id)).to_arrow()) for id in snapshots)
    found = datacompy.PolarsCompare(old, new, join_columns=["id"])
    changed = len(found.intersect_rows) - found.count_matching_rows()
    print(json.dumps([len(found.df2_unq_rows), len(found.df1_unq_rows), changed]))


if __name__ == "__main__":
    main(*sys.argv[1:])

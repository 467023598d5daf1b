"""Another writer, in a process of its own: appends good rows to main through PyIceberg.

Prints the id of each row once it is committed. Arguments: the home of the lake, a seed.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from random import Random

import pyarrow
from gated_shop import HIGH, SCHEMA
from lakes import lake_of
from pyiceberg.exceptions import CommitFailedException

from icegate.catalog import open_catalog

APPENDS = 3


def main(home: Path, seed: str) -> None:
    """Append to one of the tables, a few times, again where someone else came first."""
    random = Random(seed)
    catalog = open_catalog(lake_of(home))
    for number in range(APPENDS):
        name = random.choice(("orders", "lines"))
        row = {"id": f"foreign-{seed}-{number}", "amount": random.randint(0, HIGH), "batch": 0}
        while True:
            if name == "lines":
                orders = catalog.load_table(f"{SCHEMA}.orders").scan().to_arrow()
                row["order_id"] = random.choice(orders["id"].to_pylist())
            table = catalog.load_table(f"{SCHEMA}.{name}")
            try:
                table.append(pyarrow.Table.from_pylist([row], schema=table.schema().as_arrow()))
                break
            except CommitFailedException:
                continue
            except ValueError as error:  # so PyIceberg says that a build has written to its branch
                if "older than last sequence number" not in str(error):
                    raise
        print(row["id"], flush=True)
        time.sleep(random.uniform(0, 1))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])

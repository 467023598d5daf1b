"""What a table says of itself in its properties, as far as health is measured by it."""

from __future__ import annotations

from pydantic import BaseModel, Field, PositiveInt, ValidationError

from icegate.errors import TableError
from icegate.gate.refs import Metadata

MIB = 2**20
DAY_MS = 24 * 3600 * 1000


class Limits(BaseModel):
    """Properties, with Iceberg's own defaults; sizes in bytes, ages in milliseconds."""

    target: PositiveInt = Field(512 * MIB, alias="write.target-file-size-bytes")
    # What opening a file counts when scans are planned, as if it were bytes to read.
    open_cost: PositiveInt = Field(4 * MIB, alias="read.split.open-file-cost")
    manifest_target: PositiveInt = Field(8 * MIB, alias="commit.manifest.target-size-bytes")
    snapshot_age: PositiveInt = Field(5 * DAY_MS, alias="history.expire.max-snapshot-age-ms")
    snapshots: PositiveInt = Field(1, alias="history.expire.min-snapshots-to-keep")
    ref_age: PositiveInt = Field(2**63 - 1, alias="history.expire.max-ref-age-ms")


def limits_of(metadata: Metadata) -> Limits:
    """Return the limits of a table; raises ``TableError`` for a property that is no number."""
    try:
        return Limits.model_validate(metadata.get("properties") or {})
    except ValidationError as error:
        (name, *_), given = error.errors()[0]["loc"], error.errors()[0]["input"]
        raise TableError(
            "cannot tell how healthy it is",
            why=f"its property {name} is {given!r}: no whole number above 0",
            fix="set it right by `alter table … set tblproperties`",
        ) from error

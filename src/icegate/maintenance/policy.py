"""What a model says of its table's maintenance: the flat configs `+maintenance_…` of dbt."""

from __future__ import annotations

import difflib
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic.functional_validators import BeforeValidator

from icegate.errors import ConfigError

PREFIX = "maintenance_"
PERIODS = ("day", "week", "month", "quarter", "year")
FOR_EVER, MOST = "forever", 1000  # of a unit
RETENTION = re.compile(rf"([0-9]+) ({'|'.join(PERIODS)})s?")
# What services do by themselves: with S3 Tables always, with Glue as its optimizers are set.
SERVICES = {
    "s3_tables": "S3 Tables compacts, expires snapshots and removes unreferenced files",
    "glue": "AWS Glue's optimizers compact, expire snapshots and remove orphan files",
}


def _as_list(given: Any) -> Any:
    return [given] if isinstance(given, str) else given


def _as_retention(given: Any) -> Any:
    found = RETENTION.fullmatch(given) if isinstance(given, str) else None
    if given in (None, FOR_EVER) or (found and 0 < int(found[1]) <= MOST):
        return given
    units = ", ".join(f"{period}s" for period in PERIODS)
    raise ValueError(f"write it as `7 years` or `{FOR_EVER}`: 1 to {MOST:,} of {units}")


Names = Annotated[tuple[str, ...], BeforeValidator(_as_list)]
Retention = Annotated[str | None, BeforeValidator(_as_retention)]


class Policy(BaseModel):
    """How a table is maintained. Sizes in MiB and GiB as named, times in hours, days, minutes.

    ``min_files`` small files (below 75 % of the target size) in a partition are compacted, or in
    all partitions together so many that compaction would save; ``delete_ratio`` is that of rows
    deleted by delete files. ``max_gb`` and ``max_minutes`` are of one table in one run, and so is
    ``old_partitions_max_gb``: of files of an earlier ``partition_by``, none without it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    enabled: bool = True
    min_files: int = Field(default=100, ge=2)
    delete_ratio: float = Field(default=0.1, gt=0, le=1)
    max_age_hours: float | None = Field(default=None, gt=0)
    strategy: Literal["binpack", "sort", "zorder"] = "binpack"
    sort_by: Names = ()
    target_file_mb: int | None = Field(default=None, ge=1)
    scope: Literal["all", "closed_partitions"] = "all"
    quiet_hours: float = Field(
        default=1, gt=0
    )  # how long nobody wrote to a partition that is closed
    where: str | None = None
    max_gb: float = Field(default=100, gt=0)
    old_partitions_max_gb: float | None = Field(default=None, gt=0)
    max_minutes: float = Field(default=60, gt=0)
    min_snapshots: int = Field(default=10, ge=1)
    max_query_hours: float = Field(default=24, ge=0)
    protect: Names = ()
    keep_day_end: Retention = None
    keep_week_end: Retention = None
    keep_month_end: Retention = None
    keep_quarter_end: Retention = None
    keep_year_end: Retention = None
    orphan_days: float = Field(default=3, ge=1)
    orphan_wait_hours: float = Field(default=24, ge=0)
    service: Literal["s3_tables", "glue"] | None = None

    @property
    def keeps(self) -> dict[str, str]:
        """How long a tag on what readers had at the end of a period is kept, by period."""
        found = {period: getattr(self, f"keep_{period}_end") for period in PERIODS}
        return {period: kept for period, kept in found.items() if kept}

    @model_validator(mode="after")
    def _has_an_order(self) -> Policy:
        if self.sort_by and self.strategy == "binpack":
            raise ValueError("sort_by is for the strategies sort and zorder: binpack sorts nothing")
        if self.strategy == "zorder" and not self.sort_by:
            raise ValueError("zorder needs the columns, as in `+maintenance_sort_by: [city, day]`")
        return self


KEYS = tuple(PREFIX + name for name in Policy.model_fields)


def policy_of(config: Mapping[str, Any], model: str) -> Policy:
    """Return the policy in the configs of a model, seed or snapshot; raise ``ConfigError``."""
    given = {
        name.removeprefix(PREFIX): value
        for name, value in config.items()
        if name.startswith(PREFIX) and value is not None
    }
    try:
        return Policy.model_validate(given)
    except ValidationError as error:
        raise _wrong(error.errors()[0], model) from error


def policies_of(nodes: Iterable[Mapping[str, Any]]) -> dict[str, Policy]:
    """Return the policies of a manifest's nodes, in lower case by `schema.table`.

    By `table` alone as well, where only one node has that name: for `policy_for`.
    """
    found, named = {}, defaultdict[str, list[Policy]](list)
    for node in nodes:
        if node["resource_type"] in ("model", "seed", "snapshot"):
            policy, name = policy_of(node["config"], node["name"]), node["alias"].lower()
            found[f"{node['schema'].lower()}.{name}"] = policy
            named[name].append(policy)
    return found | {name: policies[0] for name, policies in named.items() if len(policies) == 1}


def policy_for(table: str, policies: Mapping[str, Policy]) -> Policy:
    """Return the policy of a table; of one that no node makes, that of the one node of its name.

    So nothing is lost that a policy keeps where dbt's last command was for another target, or for
    an environment.
    """
    name = table.lower()
    return policies.get(name) or policies.get(name.rpartition(".")[2]) or Policy()


def _wrong(found: Any, model: str) -> ConfigError:
    place = found["loc"]
    key = PREFIX + str(place[0]) if place else PREFIX + "…"
    if found["type"] == "extra_forbidden":
        close = difflib.get_close_matches(key, KEYS, n=1, cutoff=0.8)  # all have a prefix
        return ConfigError(
            f"unknown config {key!r} of {model}",
            why="no policy has it, so that it would do nothing",
            fix=f"did you mean {close[0]!r}?" if close else f"known: {', '.join(KEYS)}",
        )
    said = found["msg"].removeprefix("Value error, ")
    given = f" is {found['input']!r}" if place else ""
    return ConfigError(
        f"cannot use the maintenance policy of {model}",
        why=f"{key}{given}: {said}" if place else said,
        fix="correct it, in dbt_project.yml or beside the model; docs/maintenance.md lists all",
    )

"""What a build costs of which nothing has changed: 30 small models and two tests of each.

Ours leaves out the models (`skip_unchanged`), through the gate; dbt-spark builds them again;
SQLMesh is called as by cron, `sqlmesh run`, before any model is due.
"""

from __future__ import annotations

from pathlib import Path

import yaml
from _bench import Claim, Cost, Side, finish, options, project_yaml, sides, timed
from _sqlmesh import first_plan, sqlmesh
from fixed_cost import models

BAR, OTHER_BAR = 5.0, 1.0
COLUMNS = {
    "stg": ["order_id", "amount"],
    "log": ["order_id", "amount"],
    "daily": ["customer_id", "revenue"],
    "report": ["customer_id", "revenue"],
}


def files_of(quick: bool) -> dict[str, str]:
    """Return the models and their tests."""
    files = {k: v for k, v in models(quick).items() if not k.endswith(("numbers.sql", "heavy.sql"))}
    described = [
        {
            "name": name,
            "columns": [{"name": column, "data_tests": ["not_null"]} for column in columns],
        }
        for name, columns in columns_of(files).items()
    ]
    return {
        **files,
        "dbt_project.yml": project_yaml(**{"+skip_unchanged": True}),  # nothing to stock dbt
        "models/_models.yml": yaml.safe_dump({"models": described}),
    }


def columns_of(files: dict[str, str]) -> dict[str, list[str]]:
    """Return the columns that are tested, by model."""
    names = [Path(path).stem for path in files if path.startswith("models/")]
    return {n: COLUMNS[n.partition("_")[0]] for n in names if n.partition("_")[0] in COLUMNS}


def audits_of(columns: list[str]) -> str:
    """Return the same tests as SQLMesh has them."""
    return f"audits ({', '.join(f'not_null(columns := {column})' for column in columns)})"


def second_build(side: Side) -> Cost:
    """Build from nothing, and return what it costs to build once more."""
    side.forget()
    side.dbt("--quiet", "build")
    cost = side.dbt("--quiet", "build")
    print(f"{side.name}: second {cost}", flush=True)
    return cost


def second_run(side: Side) -> Cost:
    """Plan from nothing, and return what a run costs then."""
    first_plan(side)
    cost = timed([str(side.python.parent / "sqlmesh"), "run"], side.folder, side.env)
    print(f"{side.name}: second {cost}", flush=True)
    return cost


def main() -> None:
    given = options(__doc__ or "", runs=3)
    files = files_of(given.quick)
    ours, peer = sides("unchanged", files, gate=True, audits=True)
    more = {name: audits_of(columns) for name, columns in columns_of(files).items()}
    other = sqlmesh("unchanged", files, more)
    costs: list[tuple[Cost, Cost, Cost]] = []
    for _ in range(given.runs):
        costs.append((second_build(ours), second_build(peer), second_run(other)))
    mine, stock, theirs = (list(column) for column in zip(*costs, strict=True))
    what = f"{len(more)} models, {2 * len(more)} tests, nothing changed"
    finish(
        "unchanged",
        [
            Claim(what, mine, stock, BAR),
            Claim(f"{what}, `sqlmesh run`", mine, theirs, OTHER_BAR, peer=other.name),
        ],
    )


if __name__ == "__main__":
    main()

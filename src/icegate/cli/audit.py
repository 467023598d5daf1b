"""`icegate audit`: the tests of the last compiled project, each proved as cheaply as can be."""

from __future__ import annotations

import gc
from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from icegate.cli.common import Grid, Opened, Shown, on_lake

if TYPE_CHECKING:
    from icegate.settings import Lake


@on_lake
def audit(
    at: Opened,
    name: Annotated[
        str | None,
        typer.Argument(help="A build by name, or a release by number; else what readers see."),
    ] = None,
    select: Annotated[
        list[str] | None, typer.Option(help="Tests or models, as in `unique_*` or `silver.*`.")
    ] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Say why cheaper proofs didn't do.")
    ] = False,
) -> Shown:
    """Run tests: by metadata, on added rows, by DuckDB, else by Spark."""
    from icegate.audits.tests import counted, read_tests

    auditor = _Auditor(at.lake, name)
    results = [auditor.result(test) for test in read_tests(at.project, select or [])]
    auditor.prover.save()
    counts = Counter(result["result"] for result in results)
    told = ", ".join(f"{count} {name}" for name, count in counts.items())
    how = counted(filter(None, (result["proof"] for result in results)), ", ")
    bad = counts["fail"] + counts["error"]
    columns = "test model result failures proof seconds" + " tried error" * explain
    why = [] if explain else [f"{r['test']}: {r['error']}" for r in results if r["error"]]
    grid = Grid(columns, results, right=("failures",))
    last = " · ".join(filter(None, (told, how))) or "no tests"
    return Shown({"tests": results}, [grid, *why, last], code=int(bad > 0))


class _Auditor:
    """Runs tests one after the other; Spark starts with the first that needs it."""

    def __init__(self, lake: Lake, name: str | None) -> None:
        from icegate.audits.answer import Prover

        self.lake, self.points = lake, dict[str, Any]()
        if name:
            from icegate.audits.points import points

            self.points = points(lake, name)
        self.prover = Prover(lake, self.points, at_once=True)
        gc.freeze()  # what is imported by now needn't be searched for garbage, test after test

    def result(self, test: Any) -> dict[str, Any]:
        """Return what `--json` prints of a test."""
        from icegate.audits.ask import ask

        told = asdict(ask(test, self.prover, self._on_spark))
        return {
            "test": test.name,
            "model": test.model,
            **told,
            "seconds": round(told["seconds"], 2),
        }

    def _on_spark(self, sql: str) -> Any:
        from icegate.audits.points import at_points
        from icegate.session import start_session

        sql = at_points(sql, self.points) if self.points else sql
        return start_session(self.lake).sql(sql).collect()[0]

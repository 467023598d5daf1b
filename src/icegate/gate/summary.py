"""The block that ends a build, for people: what was published, what waits and why, what to do."""

from __future__ import annotations

from icegate.gate.decision import Held, Outcome
from icegate.gate.report import Report

SHOWN = 10


def describe(outcome: Outcome) -> str:
    """Return the block: one line that says all, and below it each table that waits."""
    return "\n".join(["", _headline(outcome), *_details(outcome)])


def rehearsed(option: str, report: Report) -> str:
    """Return the line that ends a rehearsal."""
    built = [node.table for node in report.nodes.values() if node.status == "success"]
    text = f"\nrehearsal ({option}): {len(built) - built.count(None)} built and dropped again"
    straight = f" · {built.count(None)} not gated, so written" if None in built else ""
    return f"{text}, nothing published{straight}"


def _headline(outcome: Outcome) -> str:
    parts = []
    if outcome.published:
        untested = f" ({len(outcome.untested)} untested)" if outcome.untested else ""
        parts.append(f"{_count(len(outcome.published), 'table')} published{untested}")
    causes = [cause(held) for held in outcome.held]
    causes += [f"{table}: {why}" for table, why in outcome.blocked.items()]
    if causes:
        since = {held.since for held in outcome.held if held.since}
        when = f" since release {min(since)}" if since else ""
        parts.append(f"{len(causes)} held back{when}: {causes[0]}")
    if outcome.unchanged:
        parts.append(f"{len(outcome.unchanged)} unchanged")
    if outcome.waits:
        parts.append(f"{_count(len(outcome.waits), 'table')} on the branch, none published yet")
    name = f"release {outcome.release}" if outcome.release else f"build {outcome.build}"
    return f"{name}: {' · '.join(parts) or 'nothing to publish'}"


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'s' if number != 1 else ''}"


def cause(held: Held) -> str:
    """Return in a few words why a table is held back."""
    verdict = held.verdict
    rows = f" ({_count(verdict.failures, 'row')})" if verdict.failures else ""
    where = held.blamed or verdict.by_node.rpartition(".")[2]
    return {
        "failed_test": f"a test failed on {where}{rows}",
        "errored_test": f"a test of {where} couldn't run",
        "not_run_test": f"a test of {where} wasn't run",
        "not_built": f"{where} wasn't built",
        "untested": "tests are required and didn't run",
    }.get(verdict.root, f"because of {where}")


def _details(outcome: Outcome) -> list[str]:
    lines = []
    for held in outcome.held[:SHOWN]:
        more = held.rows or 0
        waits = f", {_count(more, 'row')} more wait" if more > 0 else ""
        lines.append(f"  {held.verdict.table}: {cause(held)} [{held.verdict.by}]{waits}")
    lines += [f"  {table}: {why}" for table, why in outcome.blocked.items()]
    lines += [f"  {table}: some of its batches failed; `dbt retry`" for table in outcome.half_done]
    lines += [f"  {table}: its main is back where it was" for table in outcome.undone]
    lines += [
        f"  {_count(rows, 'row')} quarantined in {table}"
        for table, rows in sorted(outcome.quarantined.items())
    ]
    if len(outcome.held) > SHOWN:
        lines.append(f"  … and {len(outcome.held) - SHOWN} more")
    if outcome.waits:
        lines.append(f"  next: icegate release publish {outcome.build}, or reject {outcome.build}")
    if outcome.held:
        lines += [
            f"  look: {outcome.held[0].query}",
            "  next: repair the data or the model and build again, or `dbt retry`; or accept it: "
            f'icegate release publish {outcome.build} --accept <test> --reason "…"',
        ]
    return lines


def errors_of(outcome: Outcome) -> dict[str, str]:
    """Return why tables can't be published, where dbt has no error of its own to exit with.

    What was built from such a table is one too, for else `dbt retry` would leave it as it is.
    """
    fix = "run `dbt retry`, or build again: on top of what is there"
    found = {table: _cannot(table, why, fix) for table, why in outcome.blocked.items()}
    for verdict in (held.verdict for held in outcome.held):
        if verdict.root == "untested":
            why = "tests are required in this target, and its own didn't run"
            fix = "run `dbt build`, which tests what it writes"
        elif (verdict.cause, verdict.root) == ("downstream", "not_built"):
            why = f"it was built from {verdict.by}, which can't be published"
            fix = "run `dbt retry`, or build both again"
        else:
            continue
        found[verdict.table] = _cannot(verdict.table, why, fix)
    return found


def _cannot(table: str, why: str, fix: str) -> str:
    return f"cannot publish {table}\n  why: {why}\n  fix: {fix}"

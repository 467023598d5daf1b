"""Tags that a policy asks for: on the version that readers had when the period ended, or none."""

from __future__ import annotations

import json
import re
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from health.tables import Made, append
from released import make
from shop import lake_of, make_project, run_icegate

from icegate.catalog import open_catalog, read_metadata
from icegate.gate import refs
from icegate.gate.refs import Metadata
from icegate.gate.store import edit
from icegate.maintenance.action import EXPIRE, MAKE_TAG
from icegate.maintenance.lake import plan_lake
from icegate.maintenance.plan import TablePlan
from icegate.maintenance.policy import Policy
from icegate.maintenance.run import Run
from icegate.maintenance.tags import EXPIRED, MISSING, SHORT, TAKEN, Tag, make_tags, wanted_tags

MONTHS = Policy(keep_month_end="7 years")


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=timezone.utc)


NOW = at("2026-11-03 06:00")


@pytest.fixture
def made(tmp_path: Path) -> Made:
    return Made(lake_of(make_project(tmp_path / "a b")))


def versions(made: Made, *times: str) -> list[int]:
    """Make table `s.t` with a version of each time, and return their ids."""
    table = made.table()
    for _ in times:
        append(table, "a")
    ids = [snapshot.snapshot_id for snapshot in table.snapshots()]
    set_times(made, dict(zip(ids, times, strict=True)))
    return ids


def set_times(made: Made, times: dict[int, str]) -> None:
    ms = {id: int(at(text).timestamp() * 1000) for id, text in times.items()}

    def change(old: Metadata) -> Metadata:
        snapshots = [{**s, "timestamp-ms": ms[s["snapshot-id"]]} for s in old["snapshots"]]
        log = [{**e, "timestamp-ms": ms[e["snapshot-id"]]} for e in old["snapshot-log"]]
        return {**old, "snapshots": snapshots, "snapshot-log": log}

    edit(made.lake, "s.t", change)


def metadata(made: Made) -> Metadata:
    return read_metadata(made.entry())


def found(made: Made, policy: Policy = MONTHS, now: datetime = NOW) -> dict[str, Tag]:
    return {tag.name: tag for tag in wanted_tags("s.t", metadata(made), policy, now)}


def run(made: Made, policy: Policy = MONTHS, now: datetime = NOW) -> dict[str, str]:
    return {tag.name: tag.state for tag in make_tags(made.lake, "s.t", policy, now)}


def tags(made: Made) -> dict[str, int]:
    every = metadata(made)["refs"].items()
    return {name: ref["snapshot-id"] for name, ref in every if ref["type"] == "tag"}


def test_it_is_what_readers_had_when_the_month_ended(made: Made) -> None:
    """Not what a late run finds, nor what came in the very moment in which the next month began."""
    _, last, *_ = versions(
        made, "2026-10-05", "2026-10-31 23:59:59.999", "2026-11-01", "2026-11-02"
    )
    assert run(made) == {"month_end_2026_10": MISSING}
    assert tags(made) == {"month_end_2026_10": last}
    assert run(made) == {}  # and a second run finds nothing to do
    ref = metadata(made)["refs"]["month_end_2026_10"]
    made_ms = at("2026-10-31 23:59:59.999").timestamp() * 1000
    ends = datetime.fromtimestamp((made_ms + ref["max-ref-age-ms"]) / 1000, timezone.utc)
    assert ends.date().isoformat() == "2033-11-01"


def test_an_old_version_is_kept_as_long_as_a_new_one(made: Made) -> None:
    """Iceberg counts the age of a tag from its snapshot, which may be years older."""
    (id,) = versions(made, "2024-10-05")
    states = run(made, Policy(keep_year_end="1 year", keep_quarter_end="1 quarter"))
    assert states == {"year_end_2025": MISSING, "quarter_end_2026_q3": MISSING}
    assert tags(made) == dict.fromkeys(("year_end_2025", "quarter_end_2026_q3"), id)
    year = metadata(made)["refs"]["year_end_2025"]["max-ref-age-ms"]
    assert year == (at("2027-01-01") - at("2024-10-05")).total_seconds() * 1000


@pytest.mark.parametrize(
    ("policy", "names"),
    [
        ({"keep_day_end": "2 days"}, ["day_end_2026_11_01", "day_end_2026_11_02"]),
        ({"keep_week_end": "9 days"}, ["week_end_2026_w43", "week_end_2026_w44"]),
        ({"keep_month_end": "2 months"}, ["month_end_2026_09", "month_end_2026_10"]),
        ({"keep_quarter_end": "forever"}, ["quarter_end_2026_q2", "quarter_end_2026_q3"]),
        ({"keep_year_end": "3 weeks"}, []),
    ],
)
def test_periods_have_their_names_and_end_with_their_time(
    made: Made, policy: dict[str, Any], names: list[str]
) -> None:
    versions(made, "2026-05-04")
    assert [*reversed(found(made, Policy(**policy)))] == names


def test_a_rollback_counts_from_when_it_was_made(made: Made) -> None:
    first, second = versions(made, "2026-10-05", "2026-10-20")
    when = int(at("2026-10-30").timestamp() * 1000)

    def back(old: Metadata) -> Metadata:
        log = [*old["snapshot-log"], {"snapshot-id": first, "timestamp-ms": when}]
        return {**refs.set_main(old, first), "snapshot-log": log}

    edit(made.lake, "s.t", back)
    run(made)
    assert tags(made) == {"month_end_2026_10": first} and second != first


def test_what_has_expired_is_said_and_nothing_else_is_tagged(made: Made) -> None:
    """PyIceberg takes an expired version out of the log: the one before seems to have gone on.

    What was before that is known still.
    """
    first, *_, gone, _ = versions(made, "2026-08-05", "2026-09-05", "2026-10-20", "2026-11-02")
    opened = open_catalog(made.lake).load_table("s.t")
    opened.maintenance.expire_snapshots().by_id(gone).commit()
    assert [e["snapshot-id"] for e in metadata(made)["snapshot-log"]][0] == first
    lost = {"month_end_2026_10": EXPIRED, "month_end_2026_09": EXPIRED}
    assert run(made) == {**lost, "month_end_2026_08": MISSING}
    assert tags(made) == {"month_end_2026_08": first}
    assert "isn't kept" in str(found(made)["month_end_2026_10"])


def test_a_log_that_was_cut_tells_nothing_of_before(made: Made) -> None:
    """As Iceberg leaves it when it expires, or when a table is replaced."""
    first, *_ = versions(made, "2026-08-05", "2026-10-20", "2026-11-02")
    assert run(made, now=at("2026-09-02")) == {"month_end_2026_08": MISSING}
    edit(made.lake, "s.t", lambda old: {**old, "snapshot-log": old["snapshot-log"][2:],
                                        "snapshots": old["snapshots"][::2]})  # fmt: skip
    late = {"month_end_2026_10": EXPIRED, "month_end_2026_09": EXPIRED}  # one was made in time
    assert run(made) == late and tags(made) == {"month_end_2026_08": first}


def test_a_table_that_began_later_lacks_nothing(made: Made) -> None:
    versions(made, "2026-11-02")
    assert run(made) == {}
    make(made.lake, "s.empty")
    assert make_tags(made.lake, "s.empty", MONTHS, NOW) == []
    assert make_tags(made.lake, "s.nowhere", MONTHS, NOW) == []


def test_a_name_at_another_version_is_left_alone(made: Made) -> None:
    first, _ = versions(made, "2026-10-05", "2026-10-20")
    edit(made.lake, "s.t", lambda old: refs.keep(old, "month_end_2026_10", first))
    before = made.entry()
    assert run(made) == {"month_end_2026_10": TAKEN}
    assert made.entry() == before and f"is at snapshot {first}" in str(
        found(made)["month_end_2026_10"]
    )


def test_a_tag_that_ends_too_early_is_made_to_last_and_none_is_cut(made: Made) -> None:
    (id,) = versions(made, "2026-10-05")
    edit(made.lake, "s.t", lambda old: refs.keep(old, "month_end_2026_10", id, 1))
    assert run(made) == {"month_end_2026_10": SHORT}
    age = metadata(made)["refs"]["month_end_2026_10"]["max-ref-age-ms"]
    assert run(made, Policy(keep_month_end="1 year")) == {}
    assert metadata(made)["refs"]["month_end_2026_10"]["max-ref-age-ms"] == age
    assert run(made, Policy(keep_month_end="forever")) == {"month_end_2026_10": SHORT}


def planned(made: Made, policy: Policy) -> TablePlan:
    entry = made.entry()
    (plan,) = plan_lake(made.lake, [entry], {"s.t": policy}, NOW)
    return plan


def test_maintenance_tags_before_it_expires(made: Made) -> None:
    versions(made, *[f"2026-10-{day:02}" for day in range(1, 21)], "2026-11-02")
    plan = planned(made, Policy(keep_month_end="7 years", min_snapshots=1))
    assert [plan.actions[0].kind, plan.actions[-1].kind] == [MAKE_TAG, EXPIRE]
    assert plan.actions[-1].why == "19 snapshots can go, 2 left"
    assert plan.actions[0].call() == "icegate refs s.t --make"
    done = next(Run(made.lake, lambda sql: pytest.fail(sql)).carry_out([plan]))
    assert done.outcome == "done" and "month_end_2026_10 is at" in done.said
    assert [*tags(made)] == ["month_end_2026_10"]


def test_maintenance_expires_nothing_while_a_name_is_taken(made: Made) -> None:
    first, *_ = versions(made, *[f"2026-10-{day:02}" for day in range(1, 21)])
    edit(made.lake, "s.t", lambda old: refs.keep(old, "month_end_2026_10", first))
    plan = planned(made, Policy(keep_month_end="7 years", min_snapshots=1))
    assert EXPIRE not in [action.kind for action in plan.actions]
    assert "month_end_2026_10: taken" in plan.refused[0]
    assert planned(made, Policy(min_snapshots=1)).actions[-1].kind == EXPIRE


def parse(folder: Path, **config: Any) -> None:
    node = {"name": "t", "schema": "s", "alias": "t", "resource_type": "model", "config": config}
    (folder / "target").mkdir(exist_ok=True)
    (folder / "target" / "manifest.json").write_text(json.dumps({"nodes": {"model.x.t": node}}))


def test_refs_lists_looks_and_makes(tmp_path: Path, made: Made) -> None:
    folder = tmp_path / "a b"
    (id,) = versions(made, "2020-01-15")

    def change(old: Metadata) -> Metadata:
        for tag in ("release_3", "history_s.past", "by_hand"):
            old = refs.keep(old, tag, id)
        return refs.open_branch(old, "build_nightly")

    edit(made.lake, "s.t", change)
    ran = run_icegate(folder, "refs")
    assert ran.code == 0 and "aren't known before `dbt parse`" in ran.err
    parse(folder, maintenance_keep_year_end="forever", maintenance_protect=["by_*"])
    ran = run_icegate(folder, "refs")
    kinds = {line.split()[1]: line for line in ran.out.splitlines() if line.startswith("s.t ")}
    for name, kind, holds in (
        ("release_3", " release ", "`icegate release expire`"),
        ("history_s.past", " history ", "model s.past goes on from it"),
        ("build_nightly", " build ", "open"),
        ("by_hand", " other tag ", "maintenance_protect: by_*"),
    ):
        assert kind in kinds[name] and kinds[name].endswith(holds)
    assert f"s.t: year_end_2020 would be made, at snapshot {id}" in ran.out
    assert "year_end_2020" not in tags(made)
    ran = run_icegate(folder, "refs", "--make", "--json")
    assert ran.code == 0 and {"table": "s.t", "made": True}.items() <= ran.json["tags"][0].items()
    assert tags(made)["year_end_2020"] == id
    assert any(r["kind"] == "period end" and "forever" in r["held_by"] for r in ran.json["refs"])


def test_icegate_maintain_makes_them_without_java(tmp_path: Path, made: Made) -> None:
    folder = tmp_path / "a b"
    (id,) = versions(made, "2020-01-15")
    parse(folder, maintenance_keep_year_end="forever")
    ran = run_icegate(folder, "maintain", "--plan")
    assert ran.out.splitlines()[1].split() == ["s.t", "create_tag", "year_end_2025:", "missing"]
    ran = run_icegate(folder, "maintain")
    assert ran.code == 0, ran.err
    said = rf"s\.t create_tag: done in [0-9.]+ s: year_end_2020 is at snapshot {id}"
    assert re.search(said, ran.out)
    assert tags(made) == {f"year_end_{year}": id for year in range(2020, 2026)}


def test_what_cannot_be_is_said_and_changes_nothing(tmp_path: Path, made: Made) -> None:
    folder = tmp_path / "a b"
    first, _ = versions(made, "2024-01-15", "2024-02-15")
    assert run_icegate(folder, "refs", "--make").code == 2  # policies aren't known
    for config, why in (
        ({"maintenance_keep_month_end": "7 yaers"}, "write it as `7 years`"),
        ({"maintenance_keep_month_end": "0 days"}, "1 to 1,000"),
        ({"maintenance_keep_fortnight_end": "1 year"}, "maintenance_keep_month_end"),
    ):
        parse(folder, **config)
        ran = run_icegate(folder, "refs", "--make")
        assert (ran.code, tags(made)) == (2, {}), ran.out
        assert why in ran.err and "fix: " in ran.err
    edit(made.lake, "s.t", lambda old: refs.keep(old, "year_end_2024", first))
    parse(folder, maintenance_keep_year_end="10 years")
    ran = run_icegate(folder, "refs", "--make")
    assert ran.code == 1 and "year_end_2024: taken: a tag of this name" in ran.out
    make(made.lake, "s.u")
    parse(folder, maintenance_keep_year_end="10 years")
    manifest = (folder / "target" / "manifest.json").read_text().replace('"t"', '"u"')
    (folder / "target" / "manifest.json").write_text(manifest)
    ran = run_icegate(folder, "refs", "s.u", "--make")
    assert ran.code == 0 and "s.u: nothing to tag: it has no rows yet" in ran.err

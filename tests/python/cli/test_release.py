"""`icegate release`, `status`, `plan`, `diff` and `eject` as a person runs them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from released import THIRD, add, ids, make, pointers, said, say, two_releases
from shop import Ran, lake_of, make_project, run_icegate

from icegate.gate.build import hold_alive
from icegate.settings import Lake

Run = Callable[..., Ran]


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with two releases and a build that is held back, that tests only read."""
    folder = make_project(tmp_path_factory.mktemp("release") / "a b")
    two_releases(lake_of(folder))
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = make_project(tmp_path / "a b")
    two_releases(lake_of(made))
    return made


@pytest.fixture
def lake(folder: Path) -> Lake:
    return lake_of(folder)


def words(ran: Ran) -> list[list[str]]:
    """Return the lines without what differs between runs."""
    assert ran.code == 0, ran.err
    text = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ", "TIME", ran.out)
    return [re.sub(r"\d{15,}", "ID", line).split() for line in text.splitlines()]


def test_list_has_the_newest_first_and_what_waits(shown: Path) -> None:
    lines = words(run_icegate(shown, "release", "list"))
    assert [line[:3] for line in lines] == [
        ["release", "build", "state"],
        [THIRD, "held", "back"],
        ["2", "bbbbbbbb", "published"],
        ["1", "aaaaaaaa", "published"],
        [],
        ["open", "or", "held"],
        ["name", "state", "written"],
        [THIRD, "held", "back"],
    ]
    found = run_icegate(shown, "release", "list", "--last", "1", "--json").json
    assert [(r["state"], r["release"]) for r in found["releases"]] == [("held back", None)]
    assert [(b["name"], b["tables"]) for b in found["open"]] == [(THIRD, ["s.a"])]


def test_of_many_tables_that_wait_some_are_named(folder: Path, lake: Lake) -> None:
    names = [f"s.t{number}" for number in range(8)]
    make(lake, *names)
    for name in names:
        add(lake, name, 0)
        add(lake, name, 1, build="nightly")
    assert "s.t0, s.t1, s.t2, s.t3, s.t4, and 3 more" in run_icegate(folder, "status").out
    found = run_icegate(folder, "release", "list", "--json").json["open"]
    assert next(build["tables"] for build in found if build["name"] == "nightly") == names


def test_show_has_the_tables_and_what_is_held_back(shown: Path) -> None:
    found = run_icegate(shown, "release", "show", "2", "--json").json
    assert [(t["table_name"], t["moved"]) for t in found["tables"]] == [
        ("s.a", True),
        ("s.b", True),
    ]
    ran = run_icegate(shown, "release", "show", THIRD)
    assert "s.a    a test failed on s.a (1 row)  not_null_a" in ran.out
    assert f"look: select * from s.a version as of 'build_{THIRD}'" in ran.out
    (held,) = run_icegate(shown, "release", "show", THIRD, "--json").json["events"][0]["held"]
    assert (held["test"], held["failing_rows"], held["rows_wait"]) == ("not_null_a", 1, 2)


def test_status_plan_and_diff(shown: Path) -> None:
    lines = [" ".join(line) for line in words(run_icegate(shown, "status"))]
    assert lines[0].startswith("release 2, build bbbbbbbb: published TIME by ")
    assert f"s.a a test failed on s.a (1 row) not_null_a 2 {THIRD} 2 TIME" in lines
    lines = [" ".join(line) for line in words(run_icegate(shown, "plan"))]
    assert lines[0] == f"icegate release publish {THIRD}"
    assert lines[2] == "s.a ID ID 2 1 0 held back a test failed on s.a (1 row)"
    lines = [" ".join(line) for line in words(run_icegate(shown, "diff", "1", THIRD))]
    assert lines[1:] == ["s.a 3 2 0", "s.b 1 1 0"]
    assert run_icegate(shown, "diff", "2", "main").out == "2 and main are the same\n"


def test_plan_says_what_the_next_run_changes(folder: Path) -> None:
    """From dbt's manifest, and by its YAML only where the SQL isn't compiled."""
    assert "isn't known before `dbt compile`" in run_icegate(folder, "plan").err
    config = {"materialized": "incremental", "on_schema_change": "sync_all_columns"}
    node = {"resource_type": "model", "schema": "s", "config": config, "columns": {}}
    sql = {"a": "select id, cast(7 as date) as day from s.b", "b": "select * from files.f"}
    nodes = {n: {**node, "name": n, "alias": n, "compiled_code": text} for n, text in sql.items()}
    (folder / "target").mkdir()
    (folder / "target" / "manifest.json").write_text(json.dumps({"nodes": nodes}))
    ran = run_icegate(folder, "plan", "--json")
    assert ran.code == 0 and ran.json["build"] == THIRD
    said = [
        (c["table"], c["change"], c["effect"], c["stops_the_build"]) for c in ran.json["changes"]
    ]
    assert said == [
        ("s.a", "column=day added=date", "safe", False),
        ("s.a", "column=amount dropped", "destructive", True),
    ]
    assert ran.json["unknown"] == {"s.b": "only Spark can tell what its SQL selects"}
    ran = run_icegate(folder, "plan")
    assert "the next run changes\n" in ran.out and "set `+allow_destructive: true`" in ran.out
    assert "only Spark can tell what its SQL selects: s.b" in ran.err


def test_no_command_starts_a_jvm_or_loads_what_it_need_not(shown: Path) -> None:
    import subprocess
    import sys

    code = (
        "import sys\nfrom icegate.cli.main import app\n"
        "try: app(['status'])\nexcept SystemExit: pass\n"
        "print([m for m in ('pyspark', 'dbt', 'sqlalchemy', 'pyarrow') if m in sys.modules])"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], cwd=shown, capture_output=True, text=True, check=True
    )
    assert ran.stdout.splitlines()[-1] == "[]"


@pytest.mark.slow
def test_a_course_of_publish_rollback_reject_and_expire(folder: Path, lake: Lake) -> None:
    ran = run_icegate(folder, "release", "publish", THIRD)
    assert ran.code == 1 and "1 held back since release 2" in ran.out
    accept = ("--accept", "not_null_a", "--reason", "known gap")
    ran = run_icegate(folder, "release", "publish", THIRD, *accept)
    assert ran.code == 0 and ran.out.startswith("release 3: 1 table published")
    row = run_icegate(folder, "release", "list", "--json").json["releases"][0]
    assert (row["accepted"], row["reason"]) == (["not_null_a"], "known gap")
    ran = run_icegate(folder, "release", "rollback", "1", "--dry-run")
    assert "release 4 would be what release 1 had" in ran.out
    assert ids(lake, "s.a") == [0, 1, 2, 3, 4]
    ran = run_icegate(folder, "release", "rollback", "1", "s.a", "--json")
    assert ran.json["release"] == 4 and ran.json["tables"][0]["rows"] == -3
    assert ids(lake, "s.a") == [0, 1] and ids(lake, "s.b") == [0, 1, 2]
    add(lake, "s.b", 8, build="nightly")
    say(lake, "nightly", b="pass")
    ran = run_icegate(folder, "release", "reject", "nightly", "--reason", "a wrong day")
    assert ran.out == "rejected build nightly: dropped from s.b\n"
    ran = run_icegate(folder, "release", "expire", "--keep", "1", "--days", "0")
    assert ran.out == "dropped release_1, release_2 of s.a\ndropped release_1 of s.b\n"
    assert run_icegate(folder, "release", "expire").out == "nothing to expire\n"
    assert said(lake)[-4:] == ["rolled_back", "built", "rejected", "expired"]
    ran = run_icegate(folder, "status")
    assert ran.out.startswith("release 4, build rollback_to_1: rolled back ")
    assert run_icegate(folder, "plan").out == "nothing waits\n"


@pytest.mark.slow
def test_recover_and_eject(folder: Path, lake: Lake) -> None:
    assert run_icegate(folder, "release", "recover").out == "nothing to recover\n"
    add(lake, "s.b", 8, build="dddddddd")
    ran = run_icegate(folder, "release", "recover")
    assert ran.out == "dropped build dddddddd from s.b\n"
    before = pointers(lake)
    ran = run_icegate(folder, "eject")
    assert (
        "would remove build_cccccccc, release_1, release_2, write.wap.enabled from s.a" in ran.out
    )
    assert pointers(lake) == before
    ran = run_icegate(folder, "eject", "--yes")
    assert ran.code == 0 and "removed icegate.releases from the catalog" in ran.out
    assert [t["name"] for t in run_icegate(folder, "tables", "--json").json["tables"]] == ["a", "b"]
    assert run_icegate(folder, "status").out.startswith("nothing was released yet\n")


BAD: dict[str, tuple[list[str], int, str]] = {
    "an unknown release": (["show", "9"], 2, "cannot find release or build '9'"),
    "an unknown build": (["publish", "nightly"], 2, "cannot find release or build 'nightly'"),
    "no name at all": (["reject", "A b"], 2, "cannot name a release 'A b'"),
    "no reason": (["publish", THIRD, "--accept", "not_null_a"], 2, "without a reason"),
    "another test": (
        ["publish", THIRD, "--accept", "not_null", "--reason", "x"], 2, "did you mean 'not_null_a'",
    ),
    "nothing that waits": (["publish", "2"], 1, "nothing of it waits"),
    "nothing to reject": (["reject", "bbbbbbbb"], 1, "icegate release rollback <n>"),
    "a rollback to nowhere": (["rollback", "7"], 2, "the last one is 2"),
    "a table that it lacks": (["rollback", "1", "s.c"], 2, "it wasn't there, or isn't gated"),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_clear_message_and_moves_nothing(shown: Path, case: str) -> None:
    arguments, code, message = BAD[case]
    before = pointers(lake_of(shown))
    ran = run_icegate(shown, "release", *arguments)
    assert (ran.code, ran.out) == (code, "")
    assert ran.err.startswith("error: cannot ") and message in ran.err
    assert len(ran.err.splitlines()) == 3
    assert pointers(lake_of(shown)) == before


def test_a_build_that_runs_is_left_alone(shown: Path) -> None:
    with hold_alive(lake_of(shown), THIRD):
        for command in (["publish"], ["reject"]):
            ran = run_icegate(shown, "release", *command, THIRD)
            assert ran.code == 1 and "a process of it is running" in ran.err
        open_: list[Any] = run_icegate(shown, "status", "--json").json["open"]
        assert open_[0]["state"] == "running"


def test_before_anything_was_built(tmp_path: Path) -> None:
    folder = make_project(tmp_path / "new")
    for command, text in {
        "release list": "no releases yet",
        "status": "nothing was released yet",
        "plan": "nothing waits",
        "release recover": "nothing to recover",
        "release expire": "nothing to expire",
        "eject": "nothing to remove",
    }.items():
        ran = run_icegate(folder, *command.split())
        assert ran.code == 0 and ran.out.startswith(text), (command, ran.err)
    assert run_icegate(folder, "release", "rollback", "1").code == 2
    assert not (folder / ".icegate").exists()

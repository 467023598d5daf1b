"""`icegate wait`: what is told of days that are there, late, missing, or not what was promised."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
import yaml
from shop import run_icegate
from test_landing import GOOD_ORDERS

from icegate.landing import sha256

ROOT = Path(__file__).parents[3]
DAY = "2026-01-01"
COLUMNS = [
    {"name": "order_id", "data_type": "string"},
    {"name": "items", "data_type": "array<struct<product_id:string>>"},
]


@pytest.fixture(scope="module")
def parsed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project of two sources that are files and one that isn't, parsed by dbt."""
    from dbt.cli.main import dbtRunner

    project = tmp_path_factory.mktemp("wait") / "a project"
    (project / "models").mkdir(parents=True)
    outputs = {"t": {"type": "icegate", "method": "session", "schema": "t"}}
    write = {
        "dbt_project.yml": {"name": "t", "version": "1.0", "profile": "t"},
        "profiles.yml": {"t": {"target": "t", "outputs": outputs}},
        "models/sources.yml": {
            "sources": [
                {"name": "shop", "tables": [files("orders"), files("returns")]},
                {"name": "other", "tables": [{"name": "table"}]},
            ]
        },
    }
    for name, content in write.items():
        (project / name).write_text(yaml.safe_dump(content))
    where = ["--project-dir", str(project), "--profiles-dir", str(project)]
    assert dbtRunner().invoke(["--quiet", "parse", *where]).success
    return project


def files(name: str) -> dict[str, Any]:
    meta = {"location": f"landing/shop/*/{name}-*.jsonl", "format": "json"}
    return {"name": name, "config": {"meta": meta}, "columns": COLUMNS}


@pytest.fixture
def project(parsed: Path) -> Path:
    """The project with a good day of 3 orders and 3 returns, in two files each."""
    import shutil

    shutil.rmtree(parsed / "landing", ignore_errors=True)
    day = parsed / "landing" / "shop" / DAY
    day.mkdir(parents=True)
    lines = [json.dumps(row) + "\n" for row in GOOD_ORDERS]
    for table in ("orders", "returns"):
        (day / f"{table}-0.jsonl").write_text(lines[0])
        (day / f"{table}-1.jsonl").write_text("".join(lines[1:]))
    mark(day)
    return parsed


def mark(day: Path) -> None:
    found = sorted(day.glob("*.jsonl"))
    told = {
        p.name: {
            "rows": len(p.read_text().splitlines()),
            "bytes": p.stat().st_size,
            "sha256": sha256(p),
        }
        for p in found
    }
    (day / ".marker").write_text(json.dumps({"files": told}))
    os.replace(day / ".marker", day / "_SUCCESS")


def change_marker(day: Path, **entry: Any) -> None:
    told = json.loads((day / "_SUCCESS").read_text())
    told["files"]["orders-1.jsonl"].update(entry)
    (day / "_SUCCESS").write_text(json.dumps(told))


def test_a_good_day_is_ready(project: Path) -> None:
    ran = run_icegate(project, "wait", "--day", DAY, "--json")
    assert ran.code == 0 and ran.json["state"] == "ready"
    told = {d["source"]: (d["state"], d["files"], d["rows"]) for d in ran.json["deliveries"]}
    assert told == {"shop.orders": ("ready", 2, 3), "shop.returns": ("ready", 2, 3)}
    assert run_icegate(project, "wait", "--day", DAY).out.splitlines()[-1] == "ready: 2 ready"


def test_today_is_what_it_waits_for(project: Path) -> None:
    ran = run_icegate(project, "wait", "--json")
    today = f"{datetime.now(timezone.utc):%F}"
    assert ran.code == 4 and {d["day"] for d in ran.json["deliveries"]} == {today}


def test_a_marker_that_names_no_file_of_a_table_says_that_it_has_no_rows(project: Path) -> None:
    day = project / "landing/shop" / DAY
    for path in day.glob("returns-*"):
        path.unlink()
    mark(day)
    ran = run_icegate(project, "wait", "--day", DAY, "shop.returns", "--json")
    assert ran.code == 0 and ran.json["deliveries"][0]["rows"] == 0


def test_no_marker_is_missing(project: Path) -> None:
    (project / "landing/shop" / DAY / "_SUCCESS").unlink()
    ran = run_icegate(project, "wait", "shop.orders", "--day", DAY, "--day", "2026-01-02", "--json")
    assert ran.code == 4
    why = [(d["state"], d["files"], d["why"].split(" in ")[0]) for d in ran.json["deliveries"]]
    assert why[0] == ("missing", 2, "no _SUCCESS")
    assert why[1][:2] == ("missing", 0) and why[1][2].startswith("no folder ")


def test_time_is_up_when_it_was_said(project: Path) -> None:
    (project / "landing/shop" / DAY / "_SUCCESS").unlink()
    began = time.monotonic()
    ran = run_icegate(project, "wait", "--day", DAY, "--timeout", "0.05", "--every", "60")
    assert ran.code == 4 and 3 <= time.monotonic() - began < 10
    assert ran.out.splitlines()[-1] == "missing: 2 missing"


def test_a_marker_that_comes_while_it_waits_ends_the_waiting(project: Path) -> None:
    day = project / "landing/shop" / DAY
    (day / "_SUCCESS").unlink()
    after_s = 5  # by then it has looked, also on a busy machine
    threading.Timer(after_s, mark, [day]).start()
    began = time.monotonic()
    ran = run_icegate(project, "wait", "--day", DAY, "--timeout", "1", "--every", "0.2")
    assert ran.code == 0 and 0.9 < time.monotonic() - began - after_s + 1 < 20, ran
    assert f"source=shop.orders day={DAY} state=ready" in ran.err


def test_a_day_that_came_too_late_is_told_and_is_whole(project: Path) -> None:
    marker = project / "landing/shop" / DAY / "_SUCCESS"
    came = datetime(2026, 1, 2, 2, 0, 1, tzinfo=timezone.utc).timestamp()
    os.utime(marker, (came, came))
    late = run_icegate(project, "wait", "--day", DAY, "--late-after", "26", "--json")
    assert late.code == 3 and late.json["state"] == "late"
    assert late.json["deliveries"][0]["why"] == "due by 2026-01-02 02:00Z"
    assert run_icegate(project, "wait", "--day", DAY, "--late-after", "26.1").code == 0


HARMS: dict[str, tuple[Callable[[Path], object], str]] = {
    "wrong row count": (
        lambda day: change_marker(day, rows=3),
        "orders-1.jsonl: it has 2 rows, and _SUCCESS promises 3",
    ),
    "wrong checksum": (
        lambda day: change_marker(day, sha256="0" * 64),
        "orders-1.jsonl: its SHA-256 isn't the one that _SUCCESS promises",
    ),
    "another content of the same size": (
        lambda day: (day / "orders-1.jsonl").write_text(
            (day / "orders-1.jsonl").read_text().replace('"1"', '"7"')
        ),
        "orders-1.jsonl: its SHA-256 isn't",
    ),
    "truncated": (
        lambda day: (day / "orders-1.jsonl").write_text("{}\n"),
        "orders-1.jsonl: truncated: 3 bytes",
    ),
    "not JSON": (
        lambda day: (day / "_SUCCESS").write_text("done"),
        "_SUCCESS: JSONDecodeError",
    ),
    "empty marker": (lambda day: (day / "_SUCCESS").write_text(""), "_SUCCESS: JSONDecodeError"),
    "a marker of another form": (
        lambda day: (day / "_SUCCESS").write_text('{"files": ["orders-1.jsonl"]}'),
        "_SUCCESS: ",
    ),
    "no rows promised": (
        lambda day: change_marker(day, rows=None),
        "_SUCCESS: a file in it has no number of rows",
    ),
    "a promised file isn't there": (
        lambda day: (day / "orders-1.jsonl").unlink(),
        "orders-1.jsonl: _SUCCESS promises it, but it isn't there",
    ),
    "a file that nobody promised": (
        lambda day: (day / "orders-2.jsonl").write_text("{}\n"),
        "orders-2.jsonl: the day's _SUCCESS doesn't name it",
    ),
}


@pytest.mark.parametrize("harm", HARMS)
def test_what_contradicts_is_told_at_once(project: Path, harm: str) -> None:
    do, why = HARMS[harm]
    do(project / "landing/shop" / DAY)
    (project / "landing/shop/2026-01-02").mkdir()  # another one that is missing
    days = ["--day", DAY, "--day", "2026-01-02"]
    began = time.monotonic()
    ran = run_icegate(project, "wait", "shop.orders", *days, "--timeout", "0.5", "--json")
    assert ran.code == 5 and ran.json["state"] == "contradicting", ran
    assert why in ran.json["deliveries"][0]["why"] and time.monotonic() - began < 25


def test_all_that_is_wrong_with_a_day_is_told(project: Path) -> None:
    day = project / "landing/shop" / DAY
    (day / "orders-0.jsonl").unlink()
    change_marker(day, rows=7)
    (told,) = run_icegate(project, "wait", "*.orders", "--day", DAY, "--json").json["deliveries"]
    assert told["why"].count("orders-") == 2


@pytest.mark.parametrize(
    ("args", "why"),
    [(["shop.order"], "did you mean 'shop.orders'?"), (["other.table"], "no source that is files")],
)
def test_a_source_that_isnt_files_is_refused(project: Path, args: list[str], why: str) -> None:
    ran = run_icegate(project, "wait", *args)
    assert ran.code == 2 and why in ran.err


def test_without_a_manifest_it_says_how_to_get_one(tmp_path: Path) -> None:
    (tmp_path / "dbt_project.yml").write_text("name: t")
    ran = run_icegate(tmp_path, "wait")
    assert ran.code == 2 and "cannot find the project's sources" in ran.err


def test_cron_has_a_job_of_its_own(project: Path) -> None:
    job = [sys.executable, str(ROOT / "python_jobs" / "wait_for_landing.py"), "--day", DAY]
    done = subprocess.run(job, cwd=project, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "ready: 2 ready" in done.stdout, done

"""`icegate-daily`: a good day, bad days, two at once, and runs that are stopped or killed."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest
from trust.receivers import webhook

from deploy.scheduled import BAD, DEPLOY, GOOD, REPAIRED, Lakehouse, wait_until

pytestmark = pytest.mark.long

TOTALS = "select * from main.totals order by 1"
DAILY = DEPLOY / "cron" / "icegate-daily"


@pytest.fixture(scope="module")
def lakehouse(tmp_path_factory: pytest.TempPathFactory) -> Lakehouse:
    made = Lakehouse(tmp_path_factory.mktemp("cron"))
    made.land("2026-01-01", GOOD)
    done = daily(made, "2026-01-01")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    return made


def daily(lakehouse: Lakehouse, day: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return lakehouse.run(DAILY, DAILY_WAIT=f"shop --day {day}", **environ)


def begin(lakehouse: Lakehouse, until: str) -> subprocess.Popen[str]:
    """Start a run of the first day, and return it once its log has a text."""
    before = set(logs(lakehouse))
    env = lakehouse.environ | {"DAILY_WAIT": "shop --day 2026-01-01"}
    run = subprocess.Popen(
        [str(DAILY)], cwd=lakehouse.folder, env=env, stderr=subprocess.PIPE, text=True
    )
    wait_until(lambda: any(until in log.read_text() for log in set(logs(lakehouse)) - before))
    return run


def logs(lakehouse: Lakehouse) -> list[Path]:
    return sorted((lakehouse.folder / "logs" / "daily").glob("*.log"))


def test_a_good_day_is_published_and_told_in_the_log_alone(lakehouse: Lakehouse) -> None:
    log = logs(lakehouse)[0].read_text()
    steps = [line.split()[1] for line in log.splitlines() if " step=" in line and "code" in line]
    assert steps == ["step=wait", "step=build", "step=report", "step=maintain"]
    assert "release 1: 4 tables published" in log
    assert "\x1b" not in log
    assert (lakehouse.folder / "target" / "trust.html").is_file()


def test_a_bad_day_is_told_and_readers_have_the_good_one(lakehouse: Lakehouse) -> None:
    lakehouse.land("2026-01-02", BAD)
    before = lakehouse.rows(TOTALS)
    with webhook() as hook:
        channel = {"DAILY_CHANNEL": f"json://{hook.at}"}
        done = daily(lakehouse, "2026-01-02", **channel)
        assert done.returncode == 1
        assert "build ended with 1" in done.stderr
        assert "a test failed on main.orders (1 row) [not_null_orders_customer]" in done.stderr
        assert lakehouse.rows(TOTALS) == before
        (told,) = hook.take()
        assert told["title"].startswith("Icegate: build ended with 1 on ")
        assert str(logs(lakehouse)[-1]) in told["message"]
        lakehouse.land("2026-01-03", GOOD)
        lakehouse.write("models/orders.sql", REPAIRED)
        assert daily(lakehouse, "2026-01-03", **channel).returncode == 0
        assert hook.take() == []
    assert lakehouse.rows(TOTALS) == before


def test_a_day_that_isnt_there_is_not_built(lakehouse: Lakehouse) -> None:
    before = lakehouse.releases()
    done = daily(lakehouse, "2026-02-01")
    assert done.returncode == 4
    assert "files of the day aren't there" in done.stderr
    assert "missing: 1 missing" in done.stderr
    assert lakehouse.releases() == before


def test_a_day_that_is_late_is_built(lakehouse: Lakehouse) -> None:
    done = lakehouse.run(DAILY, DAILY_WAIT="shop --day 2026-01-01 --late-after 1")
    assert (done.returncode, done.stderr) == (0, "")
    assert "step=wait code=3" in logs(lakehouse)[-1].read_text()


def test_a_run_that_takes_too_long_is_stopped(lakehouse: Lakehouse) -> None:
    before = lakehouse.releases()
    done = daily(lakehouse, "2026-01-01", DAILY_HOURS="0")
    assert done.returncode == 124
    assert "took longer than 0 hours" in done.stderr
    assert lakehouse.releases() == before


def test_two_at_once_and_one_that_was_killed(lakehouse: Lakehouse) -> None:
    run = begin(lakehouse, "START sql")
    second = daily(lakehouse, "2026-01-01")
    assert second.returncode == 75
    assert f"process {run.pid}" in second.stderr
    os.kill(run.pid, signal.SIGKILL)
    run.wait()
    # What it started works on, and keeps others out until it ends.
    assert daily(lakehouse, "2026-01-01").returncode == 75
    lock = lakehouse.home / "daily.lock"
    free = ["flock", "-n", str(lock), "true"]
    wait_until(lambda: subprocess.run(free, check=False).returncode == 0)
    assert daily(lakehouse, "2026-01-01").returncode == 0
    said = f"didn't come to its end: it began {logs(lakehouse)[-2].stem}, process {run.pid}"
    assert said in logs(lakehouse)[-1].read_text()
    assert lock.read_text() == ""


def test_a_run_that_is_stopped_leaves_nothing_half_done(lakehouse: Lakehouse) -> None:
    before = lakehouse.rows(TOTALS)
    run = begin(lakehouse, "START sql")
    run.terminate()
    said = run.communicate(timeout=90)[1]
    assert run.returncode == 143, said
    assert "somebody stopped it" in said
    assert "model main.totals" not in logs(lakehouse)[-1].read_text()  # dbt ended, too
    assert lakehouse.rows(TOTALS) == before
    assert daily(lakehouse, "2026-01-01").returncode == 0
    assert lakehouse.json("release", "list")["open"] == []


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"ICEGATE_PROJECT": "/nowhere"}, "cannot find the project /nowhere"),
        ({"ICEGATE_BIN": "/nowhere"}, "cannot run /nowhere/icegate"),
        ({"DAILY_LOGS": "/proc/logs"}, "cannot write /proc/logs"),
    ],
)
def test_wrong_settings(lakehouse: Lakehouse, given: dict[str, str], said: str) -> None:
    done = lakehouse.run(DAILY, **given)
    assert done.returncode == 2
    assert said in done.stderr


def test_a_file_of_settings(lakehouse: Lakehouse, tmp_path: Path) -> None:
    file = tmp_path / "daily.env"
    file.write_text("DAILY_WAIT=\"shop --day $(date -u -d '2026-01-30 + 3 days' +%F)\"\n")
    file.chmod(0o644)
    done = lakehouse.run(DAILY, file)
    assert (done.returncode, "others may read it" in done.stderr) == (2, True)
    file.chmod(0o600)
    done = lakehouse.run(DAILY, file)
    assert done.returncode == 4
    assert "2026-02-02" in done.stderr
    assert lakehouse.run(DAILY, tmp_path / "none.env").returncode == 2


def test_old_logs_go(lakehouse: Lakehouse) -> None:
    old = logs(lakehouse)[0].with_name("2020-01-01T000000Z.log")
    old.touch()
    os.utime(old, (0, 0))
    assert daily(lakehouse, "2026-02-01").returncode == 4
    assert not old.exists()

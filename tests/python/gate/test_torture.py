"""`make torture` in small: it finds nothing, and it does find what is broken on purpose."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[2] / "torture"

pytestmark = pytest.mark.long


def torture(*args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(PROGRAM), *args], capture_output=True, text=True)


def test_ten_rounds_show_readers_nothing_wrong() -> None:
    done = torture("--rounds", "10")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "torture: 10 rounds" in done.stdout and ", 0 violations" in done.stdout


@pytest.mark.parametrize(
    ("sabotage", "planted", "mishap", "noticed"),
    [
        ("publish_untested", "null", "nothing", "lines has a row with amount None"),
        ("publish_one_by_one", "none", "nothing", "tables of different batches"),
        ("believe_the_error", "none", "lose the reply", "a file of a table is gone"),
    ],
)
def test_a_broken_gate_is_noticed(sabotage: str, planted: str, mishap: str, noticed: str) -> None:
    how = ("--sabotage", sabotage, "--planted", planted, "--only", mishap)
    done = torture("--rounds", "1", "--warm", "0", *how)
    assert done.returncode == 1
    assert noticed in done.stdout, done.stdout + done.stderr

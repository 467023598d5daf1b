"""What counts as news: the state of a digest has no times."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path

from released import two_releases

from icegate.trust.digest import Digest, Writer
from icegate.trust.facts import Reading
from icegate.trust.project import read_project
from trust.test_facts import lake, two_tables

__all__ = ["lake"]


def test_the_next_day_alone_is_no_news(lake, tmp_path: Path) -> None:
    two_tables(tmp_path)
    two_releases(lake)

    def digest(days: int, when: str) -> Digest:
        project = read_project(tmp_path)
        reading = Reading(lake, project, datetime.now(timezone.utc) + timedelta(days=days))
        reading.answers.when = lambda test, build: when
        return Writer(reading).digest()

    today, tomorrow = digest(0, "of yesterday"), digest(1, "of Saturday")
    assert "of yesterday" in today.body and "of Saturday" in tomorrow.body
    assert today.state == tomorrow.state

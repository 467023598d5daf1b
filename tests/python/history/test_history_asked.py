"""What a model of materialization `history` asks for wrongly."""

from __future__ import annotations

from typing import Any

import pytest
from conftest import DbtProject

from history.dimensions import Shop

# Each builds real tables and their versions, some seconds a test.
pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ({"unique_key": None}, "has no unique_key"),
        ({"unique_key": "ident"}, "unique_key of model past names a column 'ident'"),
        ({"columns": "id, q"}, "its select of model past names a column 'q'"),
        ({"track_columns": ["q"]}, "track_columns of model past names a column 'q'"),
        ({"columns": "id, upper(p) as p"}, "a plain select of columns of one table"),
        ({"source": "{{ source('shop', 't') }} where id > 1"}, "a plain select"),
        ({"history_mode": "chagelog"}, "did you mean 'changelog'?"),
        ({"history_mode": "row_lineage"}, "it takes format 3"),
        ({"history_gap": "hole"}, "there are error, bridge"),
        ({"source": "(select 1 as id)"}, "a plain select"),
        ({"source": "lost.table"}, "the catalog has no such table"),
        ({"columns": "id, valid_to"}, "has the name of one that a history has of its own"),
    ],
)
def test_what_cannot_be(project: DbtProject, asked: dict[str, Any], why: str) -> None:
    shop = Shop(project, "changelog")
    shop.make("id int, p string, valid_to timestamp")
    shop.sql("insert into {t} values (1, 'a', null)")
    shop.keep(**{"columns": "id, p", **asked})
    run = project.dbt("run", "--select", "past")
    assert not run.ok and why in run.text and "fix: " in run.text, run.text
    assert project.rows("show tables in {s}") == []


def test_a_doubled_key_is_refused_and_nothing_is_written(project: DbtProject) -> None:
    shop = Shop(project, "diff")
    shop.make("id int, p string")
    shop.sql("insert into {t} values (1, 'a')")
    shop.run()
    shop.sql("insert into {t} values (2, 'a'), (2, 'b')")
    before = shop.rows("*")
    run = project.dbt("run", "--select", "past")
    assert not run.ok and 'more than one row: {"id":2}' in run.text
    assert shop.rows("*") == before

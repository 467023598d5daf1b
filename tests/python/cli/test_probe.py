"""What a catalog can do is tried on it, and nothing of that stays."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import make_home
from shop import lake_of, run_icegate

from icegate.catalog import catalog_of, list_namespaces, list_relations
from icegate.catalogs import probe as probes
from icegate.catalogs.probe import probe
from icegate.errors import CatalogError

pytestmark = pytest.mark.slow
NAMES = ["views", "branches", "commits", "rename", "purge"]


def left_of(lake: Any) -> list[str]:
    """Return what lies there by the name of a probe."""
    inside = [name for name in list_namespaces(lake) if "probe" in name]
    return inside + [path.name for path in Path(lake.warehouse).glob("*probe*")]


def test_all_of_it_works_here_and_nothing_stays(spark: Any, lake: Any) -> None:
    before = list_relations(lake)
    found = probe(spark, lake)
    assert [(each.name, each.can, each.fix) for each in found] == [(n, True, "") for n in NAMES]
    assert left_of(lake) == [] and list_relations(lake) == before


class Session:
    """Spark, with other statements than those that it's given."""

    def __init__(self, spark: Any, change: Callable[[str], str]) -> None:
        self.sql = lambda text: spark.sql(change(text))


def found_by(session: Any, lake: Any) -> dict[str, Any]:
    found = {each.name: each for each in probe(session, lake)}
    assert left_of(lake) == []
    return found


@pytest.mark.parametrize(
    ("move", "said"),
    [
        ("one by one", "of several tables one moved, another didn't"),
        ("in any case", "a commit was taken that was made on metadata of another time"),
        ("forgotten", "two tables were to move, and didn't"),
    ],
)
def test_moves_that_lose_something_are_seen(
    spark: Any, lake: Any, monkeypatch: pytest.MonkeyPatch, move: str, said: str
) -> None:
    whole = type(catalog_of(lake))

    class Broken(whole):  # type: ignore[misc, valid-type]
        def move(self, steps: Any) -> None:
            if move == "one by one":
                for step in steps:
                    super().move([step])
            elif move == "in any case":
                now = {entry.full_name: entry.metadata_location for entry in self.relations(None)}
                super().move([s._replace(old_location=now[s.full_name]) for s in steps])

    monkeypatch.setattr(probes, "catalog_of", Broken)
    commits = found_by(spark, lake)["commits"]
    assert (commits.can, commits.said) == (False, said)
    assert "docs/targets.md" in commits.fix


@pytest.mark.parametrize(
    ("name", "given", "instead", "said"),
    [
        ("purge", " purge", "", "a dropped table's files stay: 6 of them"),
        ("views", "create view", "create no view", "[PARSE_SYNTAX_ERROR]"),
        ("branches", "a.branch_audit values", "a values", "a.branch_audit has 1 rows and should"),
        ("rename", "rename to", "set tblproperties ('a' = 'b') --", "a table or view isn't there"),
    ],
)
def test_what_does_not_work_is_said(
    spark: Any, lake: Any, name: str, given: str, instead: str, said: str
) -> None:
    found = found_by(Session(spark, lambda text: text.replace(given, instead)), lake)
    assert [each.name for each in found.values() if not each.can] == [name]
    assert found[name].said.startswith(said) and found[name].fix


def test_who_may_make_no_table_is_told(spark: Any, lake: Any) -> None:
    session = Session(spark, lambda text: text.replace("create table", "make table"))
    with pytest.raises(CatalogError) as raised:
        probe(session, lake)  # type: ignore[arg-type]
    assert raised.value.what.startswith("cannot make a table")
    assert "let this user" in raised.value.fix and left_of(lake) == []


def test_the_command(own_shop: Path) -> None:
    make_home(own_shop / ".icegate")
    ran = run_icegate(own_shop, "doctor", "--probe", "--json")
    found = {each["check"]: each["status"] for each in ran.json["findings"]}
    assert [*found][-5:] == NAMES and {found[name] for name in NAMES} == {"ok"}
    assert left_of(lake_of(own_shop)) == []


HADOOP = """
    hadoop:
      type: icegate
      schema: main
      spark_conf:
        spark.sql.catalog.lake: org.apache.iceberg.spark.SparkCatalog
        spark.sql.catalog.lake.type: hadoop
        spark.sql.catalog.lake.warehouse: "file:{}"
"""


def test_a_catalog_that_can_do_less(own_shop: Path, tmp_path: Path) -> None:
    """Hadoop's has neither views nor other names, and its folder has to be there."""
    make_home(own_shop / ".icegate")
    with (own_shop / "profiles.yml").open("a") as profiles:
        profiles.write(HADOOP.format(tmp_path / "a lake"))
    probed = ("doctor", "--probe", "-t", "hadoop", "--json")
    ran = run_icegate(own_shop, *probed)
    said = ran.json["findings"][-1]
    assert (ran.code, said["check"], said["status"]) == (1, "probe", "fail")
    assert said["message"].startswith("Spark can't use the catalog: Namespace does not exist")
    (tmp_path / "a lake").mkdir()
    ran = run_icegate(own_shop, *probed)
    found = {each["check"]: each["status"] for each in ran.json["findings"]}
    assert ran.code == 0 and [*(tmp_path / "a lake").iterdir()] == []
    assert [name for name in NAMES if found[name] != "ok"] == ["views", "commits", "rename"]


def test_nothing_is_tried_where_something_is_broken(own_shop: Path) -> None:
    (own_shop / ".icegate" / "catalog.db").write_bytes(b"no database" * 100)
    last = run_icegate(own_shop, "doctor", "--probe", "--json").json["findings"][-1]
    assert (last["check"], last["message"]) == ("probe", "not tried: first repair catalog")

"""A catalog that is a branch of Nessie: what no other kind has."""

from __future__ import annotations

import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, DbtProject, make_home
from released import event, ids, locations, make, stored, two_releases

from icegate.catalog import catalog_of, check_catalog, list_relations, open_catalog
from icegate.catalogs.nessie import Nessie
from icegate.errors import CatalogError, ConfigError
from icegate.gate import ledger
from icegate.gate.store import dropped, make_namespace, move
from icegate.session import start_session
from icegate.settings import Lake, lake_from_target
from targets.machine import machine as small_project
from targets.nessie_server import TOKEN, NessieServer, guarded, running

pytestmark = [pytest.mark.long, pytest.mark.targets]


@pytest.fixture(scope="module")
def server() -> Iterator[NessieServer]:
    with running() as started:
        yield started


@pytest.fixture
def lake_on(tmp_path: Path) -> Callable[..., Lake]:
    def made(keys: dict[str, Any]) -> Lake:
        places = {
            "home": make_home(tmp_path / keys["catalog_ref"]),
            "warehouse": tmp_path / "a warehouse",
        }
        return Lake(**places, spark_conf={"spark.sql.session.timeZone": "UTC"}, **keys)

    return made


@pytest.fixture
def branch(server: NessieServer, lake_on: Callable[..., Lake]) -> Lake:
    return lake_on(server.catalog(f"lake_{uuid.uuid4().hex[:10]}"))


def test_a_release_is_one_commit(server: NessieServer, branch: Lake) -> None:
    two_releases(branch)
    log = server.ask(f"trees/{branch.catalog_ref}/history?fetch=ALL")["logEntries"]
    moved = [
        {".".join(operation["key"]["elements"]) for operation in entry["operations"]}
        for entry in log
        if "icegate moves" in entry["commitMeta"]["message"]
    ]
    both = {"s.a", "s.b", "icegate.releases", "icegate.release_tables"}
    assert len([names for names in moved if names == both]) == 2


def test_another_branch_of_nessie_is_another_lake(
    server: NessieServer, branch: Lake, lake_on: Callable[..., Lake]
) -> None:
    two_releases(branch)
    other = lake_on(server.catalog(f"lake_{uuid.uuid4().hex[:10]}"))
    assert not list_relations(other)
    make(other, "s.a")
    assert ids(branch, "s.a") == [0, 1, 2] and ids(other, "s.a") == []


def test_a_table_takes_the_place_of_a_view_at_once(
    branch: Lake, tmp_path: Path, spark: Any
) -> None:
    project = DbtProject(tmp_path / "a project", branch, start_session(branch), gate=True)
    for kind in ("view", "table", "view"):
        project.write("models/m.sql", f"{{{{ config(materialized='{kind}') }}}} select 1 as id")
        run = project.dbt("build")
        assert run.ok, run.text
        (entry,) = list_relations(branch, project.schema)
        assert entry.kind == kind and project.rows("select * from {s}.m") == [(1,)]
    assert isinstance(catalog_of(branch), Nessie)


def test_no_branch_of_its_own_is_left(server: NessieServer, branch: Lake) -> None:
    make(branch, "s.a")
    now = stored(branch, "s.a")
    anew = now.write(now.metadata)._replace(old_location=None)
    move(branch, [dropped(now.entry), anew])
    assert locations(branch) == {"s.a": anew.new_location}
    branches = {reference["name"] for reference in server.ask("trees")["references"]}
    assert not [name for name in branches if name.startswith("icegate-")]


def test_a_schema_that_another_process_makes_meanwhile(
    branch: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_namespace(branch, "s")
    seen = [set[str](), {"s"}]  # not there when it looks first
    monkeypatch.setattr(Nessie, "schemas", lambda _: seen.pop(0))
    make_namespace(branch, "s")
    assert not seen


def test_pyiceberg_deletes_rows_and_sees_who_was_first(branch: Lake) -> None:
    two_releases(branch)
    catalog = open_catalog(branch)
    table, late = (catalog.load_table("s.a") for _ in range(2))
    table.delete("id == 0")
    assert ids(branch, "s.a") == [1, 2]
    late.delete("id == 1")  # refused once, and then on top of the other one
    assert ids(branch, "s.a") == [2]
    catalog.purge_table("s.b")
    assert "s.b" not in locations(branch)


def test_readers_see_nothing_wrong_while_builds_are_killed() -> None:
    program = [sys.executable, str(ROOT / "tests" / "torture"), "--rounds", "5"]
    done = subprocess.run([*program, "--catalog", "nessie"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "torture: 5 rounds" in done.stdout and ", 0 violations" in done.stdout


# files that other branches may have


def test_a_person_is_forgotten_where_files_may_go(tmp_path: Path) -> None:
    with small_project("nessie", tmp_path) as at:
        gc = {"spark.sql.catalog.lake.table-default.gc.enabled": "true"}
        at.retarget(spark_conf={"spark.sql.session.timeZone": "UTC", **gc})
        at.dbt("build")
        at.land("id,customer,amount\n1,C-1001,5\n")
        at.dbt("build")
        said = at.icegate("erase", "--subject", "customer=C-1002", "--yes")
        assert "certified" in said and "C-1002" not in said
        assert {row["customer"] for row in at.rows("orders")} == {"C-1001"}


def test_files_stay_where_others_may_have_them(tmp_path: Path) -> None:
    with small_project("nessie", tmp_path) as at:
        at.dbt("build")
        said = at.icegate("erase", "--subject", "customer=C-1002")
        assert "gc.enabled" in said
        plan = at.icegate("maintain", "--plan", "--orphans")
        assert "expire_snapshots" not in plan and "remove_orphan_files" not in plan


# bad input


def test_servers_and_branches_that_are_not_there(server: NessieServer, branch: Lake) -> None:
    for keys, why, fix in (
        ({"catalog_ref": "nowhere"}, "'nowhere' not found", "catalog_ref"),
        ({"catalog_uri": "http://127.0.0.1:1/api/v2"}, "Connection refused", "catalog_uri"),
        ({"catalog_uri": f"http://127.0.0.1:{server.port}/x/v2"}, "(404)", "catalog_uri"),
    ):
        wrong = branch.model_copy(update=keys)
        for use in (check_catalog, list_relations, lambda branch: make_namespace(branch, "s")):
            with pytest.raises(CatalogError, match="cannot use the catalog") as error:
                use(wrong)
            assert why in error.value.why and fix in error.value.fix


@pytest.mark.parametrize(
    ("keys", "why"),
    [
        ({}, "needs an address"),
        ({"catalog_uri": "postgresql://a@b/c"}, "no address of an HTTP server"),
        ({"catalog_uri": "http://nessie:19120/api/v1"}, "ends in /api/v2"),
        ({"catalog_uri": "http://[nessie/api/v2"}, "Invalid IPv6"),
        ({"catalog_uri": "http://me:hunter2@nessie:19120/api/v2"}, "there is a password in it"),
        ({"catalog_uri": "http://nessie/api/v2", "catalog_ref": "a b"}, "should match pattern"),
    ],
)
def test_a_target_that_cannot_be_one(tmp_path: Path, keys: dict[str, str], why: str) -> None:
    with pytest.raises(ConfigError, match=why) as error:
        lake_from_target({"catalog_type": "nessie", **keys}, tmp_path)
    assert "hunter2" not in str(error.value)


def test_a_token_that_expired(
    server: NessieServer, branch: Lake, tmp_path: Path, spark: Any
) -> None:
    with guarded(server) as door:
        keys = {**branch.model_dump(), "catalog_uri": door}
        holder = Lake(**{**keys, "catalog_token": TOKEN})
        project = DbtProject(tmp_path / "a project", holder, start_session(holder), gate=True)
        project.write("models/m.sql", "select 1 as id")
        assert project.dbt("build").ok
        assert project.rows("select * from {s}.m") == [(1,)]
        for token in (None, "of yesterday"):
            late = Lake(**{**keys, "catalog_token": token})
            for use in (
                check_catalog,
                list_relations,
                lambda branch: ledger.append(branch, [event(1)]),
            ):
                with pytest.raises(CatalogError, match="token expired") as error:
                    use(late)
                assert "catalog_token" in error.value.fix and TOKEN not in str(error.value)
    assert ledger.last_release(branch) == 1


def test_a_server_that_goes_away_and_comes_back(
    lake_on: Callable[..., Lake], tmp_path: Path, spark: Any
) -> None:
    with running() as server:
        branch = lake_on(server.catalog("lake"))
        own = DbtProject(tmp_path / "its project", branch, start_session(branch), gate=True)
        own.write("models/m.sql", "{{ config(materialized='table') }} select id from range(3)")
        assert own.dbt("build").ok
        server.stop()
        run = own.dbt("build")
        assert not run.ok and "cannot use the catalog http://127.0.0.1" in run.text
        server.start()
        own.write("models/m.sql", "{{ config(materialized='table') }} select id from range(5)")
        assert own.dbt("build").ok, "it doesn't come back"
        assert own.rows("select count(*) from {s}.m") == [(5,)]

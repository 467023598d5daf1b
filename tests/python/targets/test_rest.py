"""A catalog that is a server of Iceberg's REST protocol: what no other kind has."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from conftest import DbtProject, make_home
from released import add, event, ids, locations, make, stored, two_releases

from icegate.catalog import catalog_of, check_catalog, list_relations, read_metadata
from icegate.catalogs.entries import Moved
from icegate.catalogs.journal import State
from icegate.catalogs.rest import NEEDED
from icegate.catalogs.rest_client import Client
from icegate.catalogs.rest_moves import MARK, REGISTER, RENAME, TOGETHER, VIEWS
from icegate.errors import CatalogError, ConfigError
from icegate.gate import ledger, refs
from icegate.gate.steps import FAIL_AT
from icegate.gate.store import dropped, make_namespace
from icegate.session import start_session
from icegate.settings import Lake, lake_from_target
from icegate.storage import listed
from icegate.tables.metadata import view_version
from targets.door import bearer, door
from targets.moving import left, next_of, stop_at
from targets.rest_server import RestServer, running

TOKEN, CREDENTIAL = "s3cret-token", "an-engine:s3cret-of-it"
TARGETS = [pytest.mark.long, pytest.mark.targets]


@pytest.fixture(scope="module", params=[pytest.param("server", marks=TARGETS)])
def server() -> Iterator[RestServer]:
    with running() as started:
        yield started


@pytest.fixture
def served(server: RestServer, tmp_path: Path) -> Lake:
    """A catalog without tables."""
    places = {"home": make_home(tmp_path / "home"), "warehouse": tmp_path / "a warehouse"}
    keys = server.catalog(f"lake_{uuid.uuid4().hex[:10]}", warehouse=places["warehouse"])
    return Lake(**places, spark_conf={"spark.sql.session.timeZone": "UTC"}, **keys)


def without(lake: Lake, *endpoints: str) -> AbstractContextManager[str]:
    """Open a door behind which a lake's server doesn't have these."""

    def change(asked: str, said: bytes) -> bytes:
        if not asked.startswith("GET /v1/config"):
            return said
        config = json.loads(said)
        kept = [each for each in config["endpoints"] if each not in endpoints]
        return json.dumps({**config, "endpoints": kept}).encode()

    return door(_port(lake), change=change)


def through(lake: Lake, address: str, **keys: Any) -> Lake:
    return Lake(**{**lake.model_dump(), "catalog_uri": address, **keys})


def _port(lake: Lake) -> int:
    return urlsplit(str(lake.catalog_uri)).port or 0


# moves


# What a server may lack, and what a lake there does with.
LACKS = {
    "nothing": (),
    "commits of many": (TOGETHER,),
    "other names": (TOGETHER, REGISTER, *RENAME.values()),
}


@pytest.fixture(params=LACKS)
def filled(served: Lake, request: pytest.FixtureRequest) -> Iterator[Lake]:
    """A lake with the tables `s.a`, `s.b` and `s.c`, on a server that may lack something."""
    make(served, "s.a", "s.b", "s.c")
    if request.param == "nothing":
        yield served
        return
    with without(served, *LACKS[request.param]) as address:
        yield through(served, address)


def said(lake: Lake) -> dict[str, str | None]:
    """Return what moves said of each table that there is."""
    found = {entry.name: stored(lake, entry.full_name) for entry in list_relations(lake, "s")}
    return {name: table.metadata["properties"].get("said") for name, table in found.items()}


@pytest.mark.parametrize("step", ["moving", "moved_one"])
def test_what_was_stopped_is_ended_by_the_next(
    filled: Lake, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    steps = next_of(filled, "a", "b", "c")
    kind: Any = catalog_of(filled)
    stop_at(monkeypatch, kind, step, steps)
    moved = [*said(filled).values()].count("yes")
    is_one = TOGETHER in kind._client.endpoints
    assert moved == (0 if step == "moving" else 3 if is_one else 1) and len(left(filled)) == 1
    check_catalog(filled)
    assert said(filled) == dict.fromkeys("abc", "yes") and left(filled) == []
    assert kind.took(steps) and {kind.state(each) for each in steps} == {State.TAKEN}


def test_what_told_the_server_is_deleted_and_what_it_wrote_is_kept(filled: Lake) -> None:
    steps = next_of(filled, "a", "b")
    catalog_of(filled).move(steps)
    files = {Path(name).name for name in listed(filled.root)}
    assert files >= {Path(at).name for at in locations(filled).values()}
    assert not files & {Path(str(each.new_location)).name for each in steps}
    marks = {stored(filled, f"s.{name}").metadata["properties"][MARK] for name in "ab"}
    assert marks == {Path(str(each.new_location)).name for each in steps}


@pytest.mark.parametrize("step", ["moving", "moved_one"])
def test_all_is_taken_back_where_a_table_was_changed_since(
    filled: Lake, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    steps = next_of(filled, "a", "b", "c")
    kind: Any = catalog_of(filled)
    stop_at(monkeypatch, kind, step, steps)
    if said(filled)["c"] == "yes":
        pytest.skip("it was one commit")
    add(filled, "s.c", 7)
    kind.settle()
    assert said(filled) == dict.fromkeys("abc") and left(filled) == []
    assert not kind.took(steps) and ids(filled, "s.c") == [7]


def test_rows_that_came_on_top_stay(filled: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    kind: Any = catalog_of(filled)
    stop_at(monkeypatch, kind, "moved_one", next_of(filled, "a", "b"))
    add(filled, "s.a", 7)
    add(filled, "s.a", 8)
    kind.settle()
    assert ids(filled, "s.a") == [7, 8]
    assert (said(filled)["a"], said(filled)["b"]) == ("yes", "yes")


def test_who_is_in_the_way_is_told_before_anything_moves(filled: Lake) -> None:
    steps = next_of(filled, "a", "b")
    add(filled, "s.b", 7)
    with pytest.raises(Moved, match=r"s\.b"):
        catalog_of(filled).move(steps)
    assert said(filled) == dict.fromkeys("abc") and left(filled) == []


def test_someone_comes_in_the_middle(filled: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    kind: Any = catalog_of(filled)
    steps, take_all = next_of(filled, "a", "b"), type(kind)._take_all

    def met(self: Any, *given: Any) -> None:
        add(filled, "s.b", 7)  # after all was looked at
        take_all(self, *given)

    monkeypatch.setattr(type(kind), "_take_all", met)
    with pytest.raises(Moved, match=r"s\.b"):
        kind.move(steps)
    assert said(filled) == dict.fromkeys("abc")
    assert ids(filled, "s.b") == [7] and left(filled) == []


@pytest.mark.parametrize("step", ["moving", "moved_one", "moved_one,moved_one"])
@pytest.mark.parametrize("met", [False, True])
def test_names_that_change_and_tables_that_go(
    filled: Lake, monkeypatch: pytest.MonkeyPatch, step: str, met: bool
) -> None:
    (renamed, changed), gone = next_of(filled, "a", "b"), stored(filled, "s.c").entry
    steps = [dropped(gone), renamed.renamed("s", "d"), changed]
    kind: Any = catalog_of(filled)
    stop_at(monkeypatch, kind, step, steps)
    assert "c" in said(filled)  # it goes last
    is_taken = said(filled)["b"] == "yes"
    if met:
        add(filled, "s.b", 7)
    kind.settle()
    if met and not is_taken:
        assert said(filled) == dict.fromkeys("abc")
    else:
        assert said(filled) == {"b": "yes", "d": "yes"}
    assert ids(filled, "s.b") == ([7] if met else []) and left(filled) == []


def test_a_name_that_is_half_changed(filled: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    (renamed, changed), send = next_of(filled, "a", "b"), Client.send

    def lost(self: Any, method: str, *given: Any, **named: Any) -> Any:
        if method == "DELETE":
            raise CatalogError("no answer")
        return send(self, method, *given, **named)

    steps, kind = [renamed.renamed("s", "d"), changed], catalog_of(filled)
    monkeypatch.setattr(Client, "send", lost)
    if RENAME["table"] in kind._client.endpoints:  # type: ignore[attr-defined]
        kind.move(steps)
    else:
        with pytest.raises(CatalogError):
            kind.move(steps)
        assert {"a", "d"} <= {*said(filled)}
    monkeypatch.undo()
    check_catalog(filled)
    assert said(filled) == {"b": "yes", "c": None, "d": "yes"} and left(filled) == []


def test_a_table_is_made_with_all_that_it_has(filled: Lake) -> None:
    add(filled, "s.a", 1)
    add(filled, "s.a", 2)
    old = stored(filled, "s.a").metadata
    tag = {"snapshot-id": old["snapshots"][0]["snapshot-id"], "type": "tag"}
    spec = {"spec-id": 1, "fields": [PARTITION]}
    order = {"order-id": 1, "fields": [SORTED]}
    table = stored(filled, "s.a")
    wanted = {
        **old,
        "refs": {**old["refs"], "first": tag},
        "schemas": [*old["schemas"], {**old["schemas"][0], "schema-id": 1, "fields": [MORE]}],
        "current-schema-id": 1,
        "last-column-id": 9,
        "partition-specs": [*old["partition-specs"], spec],
        "default-spec-id": 1,
        "sort-orders": [*old["sort-orders"], order],
        "default-sort-order-id": 1,
    }
    catalog_of(filled).move([table.write(wanted).renamed("s", "d")])
    new = stored(filled, "s.d").metadata
    new["properties"].pop(MARK)
    same = ("table-uuid", "location", "refs", "snapshots", "properties", "current-schema-id")
    same += ("schemas", "partition-specs", "default-spec-id", "sort-orders", "last-column-id")
    assert {key: new[key] for key in same} == {key: wanted[key] for key in same}
    assert set(said(filled)) == {"b", "c", "d"} and ids(filled, "s.d", "first") == [1]


PARTITION = {"source-id": 9, "field-id": 1000, "transform": "identity", "name": "more"}
SORTED = {"source-id": 9, "transform": "identity", "direction": "asc", "null-order": "nulls-first"}
MORE = {"id": 9, "name": "more", "required": False, "type": "long"}


def test_a_new_table_that_is_in_the_way(filled: Lake) -> None:
    known = stored(filled, "s.a")
    anew = known.write(known.metadata)._replace(old_location=None)
    with pytest.raises(Moved, match=r"s\.a"):
        catalog_of(filled).move([anew, *next_of(filled, "b")])
    assert said(filled) == dict.fromkeys("abc")


def test_a_release_whose_answers_are_lost(filled: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    catalog_of(filled).move([dropped(entry) for entry in list_relations(filled)])
    monkeypatch.setenv(FAIL_AT, "ledger_staged,moving,moved_one,moved_one")
    two_releases(filled)
    assert ids(filled, "s.a") == [0, 1, 2] and left(filled) == []


def test_a_table_takes_the_place_of_a_view_and_back(
    filled: Lake, tmp_path: Path, spark: Any
) -> None:
    project = DbtProject(tmp_path / "a project", filled, start_session(filled), gate=True)
    for number, kind in enumerate(("view", "view", "table", "table", "view")):
        model = f"{{{{ config(materialized='{kind}') }}}} select {number} as id"
        project.write("models/m.sql", model)
        run = project.dbt("build")
        assert run.ok, run.text
        (entry,) = list_relations(filled, project.schema)
        assert entry.kind == kind and project.rows("select * from {s}.m") == [(number,)]
        if kind == "view":
            signs = view_version(read_metadata(entry))["summary"]
            assert signs[refs.RELEASE_STAMP] == str(number + 1)


def test_a_server_without_views_gets_tables(served: Lake, tmp_path: Path, spark: Any) -> None:
    with without(served, VIEWS) as address:
        few = through(served, address)
        project = DbtProject(tmp_path / "a project", few, start_session(few), gate=True)
        project.write("models/m.sql", "{{ config(materialized='view') }} select 1 as id")
        run = project.dbt("build")
        assert run.ok, run.text
        assert [entry.kind for entry in list_relations(few, project.schema)] == ["table"]


# who asks


def oauth(asked: str, user: str, body: bytes) -> tuple[int, bytes] | None:
    """Give a token for the credential, and let only that pass."""
    if asked == "POST /v1/oauth/tokens":
        id, _, secret = CREDENTIAL.partition(":")
        if f"client_id={id}" in body.decode() and f"client_secret={secret}" in body.decode():
            given = {"access_token": TOKEN, "token_type": "bearer", "expires_in": 3600}
            return 200, json.dumps(given).encode()
        return 401, b'{"error": "invalid_client", "error_description": "no such client"}'
    return None if user == f"Bearer {TOKEN}" else (401, EXPIRED)


EXPIRED = b'{"error": {"message": "token expired", "type": "NotAuthorized", "code": 401}}'


@pytest.mark.parametrize(
    ("key", "good", "guard"),
    [
        ("catalog_token", TOKEN, bearer(TOKEN, EXPIRED)),
        ("catalog_credential", CREDENTIAL, oauth),
    ],
)
def test_only_who_may_gets_through(
    served: Lake, tmp_path: Path, spark: Any, key: str, good: str, guard: Any
) -> None:
    with door(_port(served), guard) as address:
        holder = through(served, address, **{key: good})
        project = DbtProject(tmp_path / "a project", holder, start_session(holder), gate=True)
        project.write("models/m.sql", "select 1 as id")
        run = project.dbt("build")
        assert run.ok, run.text
        assert project.rows("select * from {s}.m") == [(1,)]
        for wrong in ("of yesterday", "an-engine:of-yesterday"):
            late = through(served, address, **{key: wrong})
            for use in (check_catalog, list_relations, lambda at: ledger.append(at, [event(1)])):
                with pytest.raises(CatalogError, match="cannot use the catalog") as error:
                    use(late)
                assert key in error.value.fix and "s3cret" not in str(error.value)
        assert ledger.last_release(holder) == 1


def test_a_server_that_goes_away(served: Lake, tmp_path: Path, spark: Any) -> None:
    with door(_port(served)) as address:
        late = through(served, address)
        project = DbtProject(tmp_path / "a project", late, start_session(late), gate=True)
        project.write("models/m.sql", "{{ config(materialized='table') }} select 1 as id")
        assert project.dbt("build").ok
        before = locations(served)
    run = project.dbt("build")
    assert not run.ok and f"cannot use the catalog {address}" in run.text
    assert locations(served) == before


# bad input


def test_servers_that_are_not_there_or_lack_what_is_needed(served: Lake) -> None:
    for address, why in (
        ("http://127.0.0.1:1", "Connection refused"),
        (f"http://127.0.0.1:{_port(served)}/nowhere", "(400)"),
    ):
        for use in (check_catalog, list_relations, lambda wrong: make_namespace(wrong, "s")):
            with pytest.raises(CatalogError, match="cannot use the catalog") as error:
                use(through(served, address))
            assert why in error.value.why and "catalog_uri" in error.value.fix
    with without(served, NEEDED["change a table"]) as address:
        few = through(served, address)
        with pytest.raises(CatalogError, match="can't change a table") as error:
            check_catalog(few)
        assert "spark_conf" in error.value.fix


def test_options_that_a_variable_leaves_empty_are_none(tmp_path: Path) -> None:
    options = {"warehouse": None, "scope": "", "prefix": "a"}
    at = {"catalog_type": "rest", "catalog_uri": "http://rest"}
    assert lake_from_target({**at, "catalog_options": options}, tmp_path).catalog_options == {
        "prefix": "a"
    }


@pytest.mark.parametrize(
    ("keys", "why"),
    [
        ({}, "needs an address"),
        ({"catalog_uri": "postgresql://a@b/c"}, "no address of an HTTP server"),
        ({"catalog_uri": "http://[rest/api"}, "Invalid IPv6"),
        ({"catalog_uri": "http://me:hunter2@rest/api"}, "there is a password in it"),
        ({"catalog_options": {"token": "hunter2"}}, "there is a password in it"),
        ({"catalog_options": {"credential": "a:hunter2"}}, "there is a password in it"),
        ({"catalog_options": {"header.Authorization": "hunter2"}}, "there is a password in it"),
        ({"catalog_options": {"s3.secret-access-key": "hunter2"}}, "there is a password in it"),
        ({"catalog_options": {"uri": "http://other"}}, "uri is said elsewhere"),
        ({"catalog_type": "nessie", "catalog_options": {"a": "b"}}, "only catalog_type rest"),
    ],
)
def test_a_target_that_cannot_be_one(tmp_path: Path, keys: dict[str, Any], why: str) -> None:
    at = {} if not keys or "catalog_uri" in keys else {"catalog_uri": "http://rest/api/v2"}
    with pytest.raises(ConfigError, match=why) as error:
        lake_from_target({"catalog_type": "rest", **at, **keys}, tmp_path)
    assert "hunter2" not in str(error.value)

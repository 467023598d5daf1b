"""What each kind of catalog that a team shares has to hold, whichever server it is."""

from __future__ import annotations

import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import DbtProject, make_home
from released import add, end, event, ids, locations, make, two_releases

from icegate.catalog import catalog_of, check_catalog, list_namespaces, list_relations
from icegate.catalogs.rest_moves import MARK
from icegate.errors import CatalogError, IcegateError
from icegate.gate import ledger
from icegate.gate.build import hold_alive, is_alive, publishing
from icegate.gate.steps import FAIL_AT
from icegate.gate.store import Moved, dropped, move, read_tables
from icegate.locks import held_alone
from icegate.session import start_session
from icegate.settings import Lake
from icegate.storage import listed
from targets import glue_server, nessie_server, postgres_server, rest_server
from targets.postgres_server import PASSWORD

pytestmark = [pytest.mark.slow]
SERVERS: dict[str, Any] = {
    "postgres": postgres_server.running,
    "nessie": nessie_server.running,
    "glue": glue_server.running,
    "rest": rest_server.running,
}
TARGETS = [pytest.mark.long, pytest.mark.targets]


@pytest.fixture(
    scope="module",
    params=[
        "postgres",
        *(pytest.param(name, marks=TARGETS) for name in ("nessie", "glue", "rest")),
    ],
)
def server(request: pytest.FixtureRequest) -> Iterator[Any]:
    if request.param == "postgres" and postgres_server.binaries() is None:
        pytest.skip("no PostgreSQL: `apt-get install postgresql`")
    with SERVERS[request.param]() as started:
        yield started


@pytest.fixture
def machine(server: Any, tmp_path: Path) -> Callable[[str], Lake]:
    """What makes another machine: a home of its own, the same catalog and warehouse."""
    keys = server.catalog(f"lake_{uuid.uuid4().hex[:10]}")

    def made(name: str) -> Lake:
        conf = {"spark.sql.session.timeZone": "UTC"}
        places = {"home": make_home(tmp_path / name), "warehouse": tmp_path / "a warehouse"}
        return Lake(**places, ansi=True, spark_conf=conf, **keys)

    return made


# moving pointers


def test_before_anything_is_built(machine: Callable[[str], Lake]) -> None:
    lake = machine("one")
    assert (list_relations(lake), list_namespaces(lake)) == ([], [])
    check_catalog(lake)


def test_what_one_machine_publishes_the_other_one_sees(machine: Callable[[str], Lake]) -> None:
    one, other = machine("one"), machine("other")
    two_releases(one)
    assert ledger.last_release(other) == 2 and ids(other, "s.a") == [0, 1, 2]
    add(other, "s.a", 9, build="dddddddd")
    assert end(other, "dddddddd", a="pass").release == 3
    assert ids(one, "s.a") == [0, 1, 2, 9] and ids(one, "s.a", "release_3") == [0, 1, 2, 9]


def test_all_pointers_move_or_none(machine: Callable[[str], Lake]) -> None:
    lake = machine("one")
    make(lake, "s.a", "s.b")
    first, second = read_tables(lake)
    late = second.write(second.metadata)
    add(lake, "s.b", 1)  # another writer comes first
    before, files = locations(lake), _files(lake)
    with pytest.raises(Moved, match=r"s\.b"):
        move(lake, [first.write(first.metadata), late])
    assert locations(lake) == before
    assert files - _files(lake) == {late.new_location}
    entries = list_relations(lake)
    move(lake, [dropped(entry) for entry in entries])
    assert not list_relations(lake)
    with pytest.raises(Moved):
        move(lake, [dropped(entry) for entry in entries])


def test_a_reader_sees_all_tables_of_a_release_or_none(machine: Callable[[str], Lake]) -> None:
    lake = machine("one")
    make(lake, "s.a", "s.b")
    seen, done = set(), threading.Event()

    def read() -> None:
        while not done.is_set():
            seen.add(tuple(_numbers(lake)))

    reader = threading.Thread(target=read)
    reader.start()
    for _ in range(20):
        move(lake, [table.write(table.metadata) for table in read_tables(lake)])
    done.set()
    reader.join()
    mixed = [numbers for numbers in seen if len({*numbers}) > 1]
    assert len(seen) > 3 and bool(mixed) == (not catalog_of(lake).at_once)


def _files(lake: Lake) -> set[str]:
    return {f"{lake.root}/{file}" for file in listed(lake.root)}


def _numbers(lake: Lake) -> list[int]:
    files = [Path(location).name for location in locations(lake).values()]
    return [int(file.partition("-")[0]) for file in files]


def test_writers_of_two_machines_lose_no_row(machine: Callable[[str], Lake]) -> None:
    lakes = [machine("one"), machine("other")]
    make(lakes[0], "s.a")
    ledger.append(lakes[0], [event(99)])
    workers = [
        threading.Thread(target=lambda n=n: _append(lakes[n % 2], n, 10))  # type: ignore[misc]
        for n in range(4)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    found = sorted(event.build for event in ledger.read_events(lakes[0]))
    assert found == sorted(["b99", *(f"b{n}{i}" for n in range(4) for i in range(10))])


def _append(lake: Lake, worker: int, times: int) -> None:
    for number in range(times):
        ledger.append(lake, [event(f"{worker}{number}")])


@pytest.mark.parametrize(("step", "code"), [("moved", "took"), ("moving", "failed")])
def test_when_the_answer_to_a_commit_is_lost(
    machine: Callable[[str], Lake], monkeypatch: pytest.MonkeyPatch, step: str, code: str
) -> None:
    lake = machine("one")
    make(lake, "s.a")
    (table,) = read_tables(lake)
    before, written = locations(lake), table.write(table.metadata)
    monkeypatch.setenv(FAIL_AT, step)
    if code == "took":
        move(lake, [written])
        (took,) = read_tables(lake)
        # A server that writes the file itself notes which one it was told of.
        noted = (took.metadata["properties"] or {}).get(MARK, "")
        assert took.entry.metadata_location != before["s.a"]
        assert str(written.new_location).endswith(noted or took.entry.metadata_location)
    else:
        with pytest.raises(CatalogError, match="no answer"):
            move(lake, [written])
        assert locations(lake) == before
        # One that may come late finds its file.
        late = catalog_of(lake).comes_late
        assert (written.new_location in _files(lake)) == late


def test_a_lock_holds_on_every_machine_and_ends_with_its_process(
    machine: Callable[[str], Lake],
) -> None:
    one, other = machine("one"), machine("other")
    with hold_alive(one, "nightly"), hold_alive(one, "nightly"):  # two processes of one build
        assert is_alive(other, "nightly") and not is_alive(other, "another")
    assert not is_alive(other, "nightly")
    holder = _holding(one)
    with (
        pytest.raises(IcegateError, match="another process does: it holds .*publish"),
        held_alone(catalog_of(other).lock("publish"), "publish"),
    ):
        pass
    got, waiting = threading.Event(), threading.Event()

    def wait() -> None:
        waiting.set()
        with publishing(other):
            got.set()

    waiter = threading.Thread(target=wait)
    waiter.start()
    assert waiting.wait(5) and not got.wait(0.5)
    holder.kill()
    waiter.join(10)
    assert got.is_set()


def _holding(lake: Lake) -> subprocess.Popen[str]:
    keys = lake.model_dump(mode="json", exclude={"catalog_password"})
    code = f"""
import sys
from icegate.gate.build import publishing
from icegate.settings import Lake
with publishing(Lake(catalog_password=sys.stdin.readline().rstrip(), **{keys!r})):
    print("held", flush=True)
    sys.stdin.read()
"""
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", code]
    holder = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, encoding="utf-8")
    assert holder.stdin is not None and holder.stdout is not None
    holder.stdin.write(f"{PASSWORD}\n")
    holder.stdin.flush()
    assert holder.stdout.readline() == "held\n"
    return holder


# Spark


def test_spark_and_light_readers_share_tables_and_views(
    machine: Callable[[str], Lake], tmp_path: Path, spark: Any
) -> None:
    lake = machine("one")
    if not catalog_of(lake).has_views:
        pytest.skip("the Spark of this process has no jar for a bucket: `test_matrix.py`")
    project = DbtProject(tmp_path / "a project", lake, start_session(lake), gate=True)
    model = "{{ config(materialized='table') }} select id from range(3)"
    project.write("models/m.sql", model)
    project.write("models/v.sql", "select id from {{ ref('m') }} where id > 0")
    run = project.dbt("build")
    assert run.ok, run.text
    kinds = {entry.name: entry.kind for entry in list_relations(project.lake, project.schema)}
    assert kinds == {"m": "table", "v": "view"}
    assert ids(project.lake, f"{project.schema}.m") == [0, 1, 2]
    assert project.rows("select count(*) from {s}.v") == [(2,)]

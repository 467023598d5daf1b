"""A stream's file: what is taken, and what is refused with a reason."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import ROOT

from icegate.errors import ConfigError
from icegate.streams.config import PLACE, Stream, find_streams, load_stream
from icegate.streams.source import POLLS, kafka_options

KAFKA = {"kafka": "127.0.0.1:9092", "topics": ["orders"]}
FOLDER = {"folder": "landing/tills"}
ROUTE = {"table": "bronze.raw_orders", "columns": {"id": "bigint", "name": "string"}}


def load(project: Path, content: Any = None, name: str = "shop", **keys: Any) -> Stream:
    given = {"source": KAFKA, "routes": [ROUTE], **keys} if content is None else content
    file = project / "python_jobs" / "streams" / f"{name}.yml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(given if isinstance(given, str) else yaml.safe_dump(given))
    return load_stream(project, name)


def with_columns(*routes: dict[str, Any], **columns: Any) -> dict[str, Any]:
    return {"routes": [{**ROUTE, "columns": columns}, *routes]}


def with_route(**keys: Any) -> dict[str, Any]:
    return {"routes": [{**ROUTE, **keys}]}


def test_short_forms_and_defaults(tmp_path: Path) -> None:
    columns = {
        "id": {"path": ["$.after.id", "$.before.id"], "type": "decimal(12, 2)"},
        "at": {"type": "timestamp", "epoch": "ms"},
        "name": "string",
    }
    operation = {"path": "$.op", "delete": "d", "insert": [1, True]}
    route = {**ROUTE, "columns": columns, "key": "id", "operation": operation, "topic": "orders"}
    stream = load(tmp_path, routes=[{**route, "when": {"$.kind": "sale"}}])
    (found,) = stream.routes
    assert found.key == ("id",) and found.topic == ("orders",)
    assert found.when == {"$.kind": ("sale",)}
    assert found.operation and found.operation.insert == ("1", "true")  # as JSON has them
    assert found.types == {"id": "decimal(12,2)", "at": "timestamp", "name": "string", **PLACE}
    assert [found.paths_of(name) for name in columns] == [
        ("$.after.id", "$.before.id"),
        ("$.at",),
        ("$.name",),
    ]
    assert found.paths == {"$.after.id", "$.before.id", "$.at", "$.name", "$.op", "$.kind"}
    assert (stream.name, stream.tombstones, stream.give_up_minutes) == ("shop", "error", 15)
    assert (stream.source.auth, stream.source.starting, stream.publish) == (
        "plaintext",
        "earliest",
        None,
    )


def test_variables_are_rendered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("T_SERVERS", "one:9092,two:9092")
    source = {"kafka": "{{ env_var('T_SERVERS') }}", "topics": "{{ env_var('T_TOPIC', 'orders') }}"}
    found = load(tmp_path, source=source).source
    assert (found.kafka, found.topics) == ("one:9092,two:9092", ("orders",))
    with pytest.raises(ConfigError, match="T_GONE isn't set"):
        load(tmp_path, source={**KAFKA, "auth": "{{ env_var('T_GONE') }}"})


def test_options_may_be_written_as_yaml_has_them(tmp_path: Path) -> None:
    options = {"failOnDataLoss": False, "minPartitions": 4, "kafka.client.id": "tills"}
    found = load(tmp_path, source={**KAFKA, "options": options}).source.options
    assert found == {"failOnDataLoss": "false", "minPartitions": "4", "kafka.client.id": "tills"}


def test_the_reader_s_own_options_are_those_that_the_file_leaves_open(tmp_path: Path) -> None:
    ours = kafka_options(load(tmp_path, source=KAFKA), tmp_path)
    assert set(POLLS.items()) <= set(ours.items())
    options = {"kafka.max.poll.records": 50, "startingOffsets": "latest"}
    found = kafka_options(load(tmp_path, source={**KAFKA, "options": options}), tmp_path)
    assert found == {**ours, "kafka.max.poll.records": "50", "startingOffsets": "latest"}


def test_this_repository_s_stream_is_good(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("KAFKA_SERVERS", "KAFKA_AUTH"):
        monkeypatch.delenv(name, raising=False)
    assert list(find_streams(ROOT)) == ["sales"]
    stream = load_stream(ROOT, "sales")
    assert stream.routes[0].table == "bronze.raw_sales" and stream.publish


UNKNOWN = {
    "top": ({"sources": {}}, "sources", "did you mean 'source'?"),
    "source": ({"source": {**KAFKA, "topic": "a"}}, "source.topic", "did you mean 'topics'?"),
    "batch": ({"batch": {"second": 1}}, "batch.second", "did you mean 'seconds'?"),
    "publish": ({"publish": {"minute": 1}}, "publish.minute", "did you mean 'minutes'?"),
    "route": (with_route(keys="id"), "routes.0.keys", "did you mean 'key'?"),
    "column": (
        with_columns(id={"typ": "int"}),
        "routes.0.columns.id.typ",
        "did you mean 'type'?",
    ),
    "operation": (
        with_route(operation={"path": "$.op", "deletes": "d"}),
        "routes.0.operation.deletes",
        "did you mean 'delete'?",
    ),
    "far off": ({"batch": {"zzz": 1}}, "batch.zzz", "known: seconds, records"),
}


@pytest.mark.parametrize("case", UNKNOWN)
def test_an_unknown_key_is_named_and_the_known_one_too(tmp_path: Path, case: str) -> None:
    keys, place, fix = UNKNOWN[case]
    with pytest.raises(ConfigError, match="unknown key") as caught:
        load(tmp_path, **keys)
    assert f"{place!r} in " in str(caught.value) and fix in str(caught.value)


DELETES = {"path": "$.op", "delete": "d"}
WRONG = {
    "key is no column": (with_route(key="number"), "key names 'number', which isn't one of its"),
    "delete without key": (with_route(operation=DELETES), "updates and deletes need a key"),
    "update without key": (
        with_route(operation={"path": "$.op", "update": "u"}),
        "updates and deletes need a key",
    ),
    "two routes into one table": (
        {"routes": [ROUTE, {**ROUTE, "table": "Bronze.RAW_orders", "when": {"$.a": 1}}]},
        "two routes go into bronze.raw_orders: put their conditions into one",
    ),
    "a path inside a value": (
        with_columns(a={"path": "$.sale"}, b={"path": "$.sale.id"}),
        "$.sale is read as a value, and something inside it is, too",
    ),
    "a condition inside a value": (
        {"routes": [{**ROUTE, "when": {"$.name.first": "ann"}}]},
        "$.name is read as a value",
    ),
    "a path inside a value of another route": (
        {"routes": [ROUTE, {"table": "a.b", "columns": {"x": {"path": "$.id.x"}}}]},
        "$.id is read as a value",
    ),
    "no such topic": (with_route(topic="sales"), "names 'sales', no topic of it"),
    "a folder with topics": (
        {"source": {**FOLDER, "topics": ["orders"]}},
        "`topics` and `starting` are for kafka",
    ),
    "a folder from its end": (
        {"source": {**FOLDER, "starting": "latest"}},
        "`topics` and `starting` are for kafka",
    ),
    "a route by topic of a folder": (
        {"source": FOLDER, **with_route(topic="orders")},
        "the route of bronze.raw_orders names a topic, and a folder has none",
    ),
    "both": ({"source": {**KAFKA, **FOLDER}}, "either `kafka` or `folder`"),
    "neither": ({"source": {}}, "either `kafka` or `folder`"),
    "kafka without topics": ({"source": {"kafka": "a:1"}}, "kafka needs `topics`"),
    "records of a folder": (
        {"source": FOLDER, "batch": {"records": 5}},
        "batch.records and batch.max_records are for kafka",
    ),
    "files of kafka": (
        {"batch": {"max_files": 5}},
        "batch.max_files and batch.max_mb are for folders",
    ),
    "no seconds": ({"batch": {"seconds": 0}}, "batch.seconds is 0: Input should be greater than 0"),
    "a type that is none": (
        with_columns(id="number"),
        "routes.0.columns.id.type is 'number': String should match pattern",
    ),
    "a path that is none": (with_columns(id={"path": "after.id"}), "String should match pattern"),
    "an epoch of a number": (
        with_columns(id={"type": "bigint", "epoch": "s"}),
        "epoch is for columns of the type timestamp",
    ),
    "the stream's own column": (
        with_columns(Source_Offset="bigint"),
        "the column 'Source_Offset' is the stream's own",
    ),
    "columns by case alone": (
        with_columns(id="int", ID="int"),
        "two columns differ by upper case alone",
    ),
    "no columns": (with_columns(), "routes.0.columns: Dictionary should have at least 1 item"),
    "no routes": ({"routes": []}, "routes is []: Tuple should have at least 1 item"),
    "a table without a schema": (
        with_route(table="raw_orders"),
        "routes.0.table is 'raw_orders': String should match pattern",
    ),
    "publish by seconds": ({"publish": {}}, "publish.minutes: Field required"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_bad_file_is_refused_with_the_place_and_the_reason(tmp_path: Path, case: str) -> None:
    keys, why = WRONG[case]
    with pytest.raises(ConfigError, match="cannot use") as caught:
        load(tmp_path, **keys)
    assert why in str(caught.value) and "docs/streams.md" in str(caught.value)
    assert "shop.yml" in str(caught.value)


def test_options_are_not_shown_for_they_may_be_secrets(tmp_path: Path) -> None:
    source = {**KAFKA, "options": {"kafka.ssl.key.password": [271828]}}
    with pytest.raises(ConfigError, match=r"kafka\.ssl\.key\.password") as caught:
        load(tmp_path, source=source)
    assert "271828" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("- a list", "it isn't a mapping"),
        ("source: [", "cannot read"),
        ("", "Field required"),
        ("just text", "it isn't a mapping"),
    ],
)
def test_a_file_that_is_no_mapping(tmp_path: Path, content: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        load(tmp_path, content)


def test_a_stream_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="streams here: none"):
        load_stream(tmp_path, "shop")
    load(tmp_path)
    load(tmp_path, name="tills")
    with pytest.raises(ConfigError, match="did you mean 'tills'"):
        load_stream(tmp_path, "till")
    with pytest.raises(ConfigError, match="cannot find stream"):
        load_stream(tmp_path, "../streams/shop")
    with pytest.raises(ConfigError, match="name is 'Two-Words'"):
        load(tmp_path, name="Two-Words")

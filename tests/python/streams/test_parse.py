"""Records into rows: what is read, and what is refused; one query for dozens of records."""

from __future__ import annotations

import datetime
import json
from decimal import Decimal
from random import Random
from typing import Any

import pytest

from icegate.gate.quarantine import Rule
from icegate.streams.config import PLACE, Route, Stream
from icegate.streams.parse import parsed, rows_of
from icegate.streams.read import PARTIAL

pytestmark = pytest.mark.slow

RECORD = (
    "source_topic string, source_partition int, source_offset bigint, source_time timestamp, "
    "_key binary, _value binary"
)
AT = datetime.datetime(2026, 3, 1, 12, tzinfo=datetime.timezone.utc)
OBJECT = "it is not one JSON object, or lacks one on the way to a value"
NO_ROUTE = "no route takes it"
Given = bytes | str | None | dict[str, Any]


def stream(*routes: dict[str, Any], **keys: Any) -> Stream:
    source = {"kafka": "127.0.0.1:1", "topics": ["a", "b"]}
    return Stream.model_validate({"name": "t", "source": source, "routes": routes, **keys})


def route(table: str = "t.t", **keys: Any) -> dict[str, Any]:
    return {"table": table, "columns": {"id": {"type": "bigint"}}, **keys}


class Found:
    """What became of records, in their order: by its number, of each its error and its row."""

    def __init__(
        self, spark: Any, what: Stream, records: list[tuple[str, Given]], rules: Any = None
    ) -> None:
        session = spark.newSession()
        for name, value in (PARTIAL | {"spark.sql.session.timeZone": "UTC"}).items():
            session.conf.set(name, value)
        rows = [(topic, 0, n, AT, None, _bytes(value)) for n, (topic, value) in enumerate(records)]
        given = session.createDataFrame(rows, RECORD)
        self.frame, self.stream = parsed(given, what, rules, quickly=True), what
        self.all = by_number(self.frame)
        self.quick = [self.all[n].pop("_is_quick") for n in sorted(self.all)]
        slow = by_number(parsed(given, what, rules))
        assert not any(row.pop("_is_quick") for row in slow.values()) and slow == self.all
        self.errors = [self.all[n]["_error"] for n in range(len(rows)) if n in self.all]

    def column(self, name: str, route: int = 0) -> list[Any]:
        return [self.row(n, route)[name] for n in sorted(self.all)]

    def row(self, n: int, route: int = 0) -> dict[str, Any]:
        start = f"_row_{route}."
        return {k.removeprefix(start): v for k, v in self.all[n].items() if k.startswith(start)}


def by_number(found: Any) -> dict[int, dict[str, Any]]:
    return {row["source_offset"]: row.asDict(recursive=True) for row in found.collect()}


def _bytes(value: Given) -> bytes | None:
    if isinstance(value, dict):
        value = json.dumps(value)
    return value.encode() if isinstance(value, str) else value


def test_the_first_route_that_fits_takes_a_record(spark: Any) -> None:
    what = stream(
        route("t.sales", topic="a", when={"$.type": ["sale", "refund"]}),
        route("t.big", when={"$.type": "sale", "$.size": [1, True]}),
        route("t.b", topic=["b"]),
    )
    cases: list[tuple[str, Given, int | None]] = [
        ("a", {"id": 1, "type": "sale"}, 0),
        ("a", {"id": 2, "type": "refund", "size": 1}, 0),
        ("a", {"id": 3, "type": "Sale", "size": 1}, None),
        ("a", {"id": 4}, None),
        ("a", {"id": 5, "type": None}, None),
        ("a", {"id": 6, "type": ["sale"]}, None),
        ("b", {"id": 7, "type": "sale", "size": 1}, 1),
        ("b", {"id": 8, "type": "sale", "size": True}, 1),
        ("b", {"id": 9, "type": "sale", "size": 10}, 2),
        ("b", {"id": 10}, 2),
        ("c", {"id": 11}, None),
    ]
    found = Found(spark, what, [(topic, value) for topic, value, _ in cases])
    assert [found.all[n]["_route"] for n in range(len(cases))] == [to for _, _, to in cases]
    assert found.errors == [NO_ROUTE if to is None else None for _, _, to in cases]
    of_b = rows_of(found.frame, what, 2)
    assert of_b.columns == ["id", *PLACE, "_deletes"]
    assert sorted(row.id for row in of_b.collect()) == [9, 10]


def test_what_is_no_json_object(spark: Any) -> None:
    blank = [' \t\n{"id": 1}\r\n ', '{"id": 1}\r']
    good = [*blank, '{"id": 1}', '{"id": 1, "x": "}{][,"}', '{"x": {"y": [{}]}}']
    bad: list[bytes | str] = [
        "",
        " ",
        "null",
        "1",
        '"text"',
        "[]",
        '[{"id": 1}]',
        '{"id": 1',
        '{"id": 1}, {"id": 2}',
        '{"id": 1}{"id": 2}',
        '{"id": 1}\n{"id": 2}',
        '{"id": 1} trailing',
        '{"id": 1} }',
        '{"id": 1}]',
        '{"id": 1}], [{"id": 2}',
        '{"id": 1}, ',
        '{"id": 1}, {',
        "{'id': 1}",
        "{id: 1}",
        '{"id": 1,}',
        '{"id": 01}',
        '{"id": NaN}x',
    ]
    binary = [b'{"id": "\xff\xfe"}', b'{"name": "\xc3\x28"}', b"\x00\x01\xff", b'{"id": 1}\xff']
    records: list[Given] = [*good, *bad, *binary, None]
    found = Found(spark, stream(route()), [("a", record) for record in records])
    assert found.errors[: len(good)] == [None] * len(good)
    refused = found.errors[len(good) :]
    assert [e for e in zip(bad, refused, strict=False) if e[1] != OBJECT] == []
    assert refused[len(bad) :] == [*["it is not UTF-8"] * len(binary), "it has no value"]


def test_a_value_of_another_form_than_its_path_needs(spark: Any) -> None:
    columns = {"id": {"path": "$.sale.id", "type": "bigint"}, "name": {"path": "$.name"}}
    given: list[Given] = [
        {"sale": {"id": 1}},
        {"sale": "text"},
        {"sale": 7},
        {"sale": [{"id": 1}]},
        {"sale": None},
        {"sale": {}},
        {"sale": {"id": {"a": 1}}},
        {"name": {"b": [1, 2.50]}},
    ]
    found = Found(spark, stream(route(columns=columns)), [("a", value) for value in given])
    unread = "id can't be read as bigint"
    assert found.errors == [None, OBJECT, OBJECT, OBJECT, None, None, unread, None]
    assert json.loads(found.column("name")[-1]) == {"b": [1, 2.5]}  # what is inside, as text


def test_types(spark: Any) -> None:
    columns = {
        "whole": "bigint", "small": "tinyint", "yes": "boolean", "half": "double",
        "money": "decimal(12, 2)", "on": {"path": "$.day", "type": "date"},
        "at": "timestamp", "local": "timestamp_ntz", "text": "string",
    }  # fmt: skip
    utc = datetime.datetime
    good: list[tuple[str, str, Any]] = [
        ("whole", "9223372036854775807", 2**63 - 1),
        ("whole", '"-12"', -12),  # text that is a number
        ("whole", "null", None),
        ("small", "-128", -128),
        ("yes", "true", True),
        ("yes", '"false"', False),
        ("half", "1.5e3", 1500.0),
        ("half", "7", 7.0),
        ("money", "9999999999.99", Decimal("9999999999.99")),
        ("money", '"0.10"', Decimal("0.10")),
        ("money", "1.10", Decimal("1.10")),
        ("money", "1.5000", Decimal("1.50")),
        ("money", "1e2", Decimal("100.00")),
        ("money", "-0.05", Decimal("-0.05")),
        ("on", '"2026-02-28"', datetime.date(2026, 2, 28)),
        ("at", '"2026-02-28T12:00:00Z"', utc(2026, 2, 28, 12)),
        ("at", '"2026-02-28T12:00:00+02:00"', utc(2026, 2, 28, 10)),
        ("at", '"2026-02-28 12:00:00.123456"', utc(2026, 2, 28, 12, 0, 0, 123456)),
        ("local", '"2026-02-28T12:00:00"', utc(2026, 2, 28, 12)),
        ("text", '"a \\"b\\" \\u00e9"', 'a "b" é'),
        ("text", "12345678901234567890.25", "12345678901234567890.25"),
        ("text", "true", "true"),
        ("text", '""', ""),
        ("text", '{"b": 1}', '{"b":1}'),
    ]
    unread = [
        ("whole", "9223372036854775808"),
        ("whole", '"many"'),
        ("whole", '""'),
        ("whole", '"1,5"'),
        ("whole", "1.5"),
        ("whole", "true"),
        ("whole", "[1]"),
        ("small", "128"),
        ("yes", '"maybe"'),
        ("half", '"x"'),
        ("money", '"1,5"'),
        ("money", "10000000000.00"),
        ("money", "9999999999.999"),
        ("on", '"2026-02-30"'),
        ("on", "20260228123"),
        ("at", '"yesterday"'),
        ("at", '"2026-02-28T25:00:00Z"'),
    ]
    rounded = ["1.005", '"0.001"', "0.009999999999999999", "1e-3"]
    what = stream(route(columns=columns))
    path = {"on": "day"}
    values = [(n, v) for n, v, _ in good] + unread + [("money", v) for v in rounded]
    texts = [f'{{"{path.get(name, name)}": {value}}}' for name, value in values]
    found = Found(spark, what, [("a", text) for text in texts])
    rows = [found.row(n)[name] for n, (name, _, _) in enumerate(good)]
    wrong = [(g, row, e) for g, row, e in zip(good, rows, found.errors, strict=False)
             if (g[2], None) != (row, e)]  # fmt: skip
    assert wrong == []
    refused = found.errors[len(good) :]
    kinds = {name: type_.replace(" ", "") for name, type_ in columns.items() if name != "on"}
    kinds["on"] = "date"
    told = [f"{name} can't be read as {kinds[name]}" for name, _ in unread]
    expected = [*told, *["money has more digits than decimal(12,2)"] * len(rounded)]
    together = zip(values[len(good) :], refused, expected, strict=True)
    assert [(value, e) for value, e, wanted in together if e != wanted] == []


def test_epochs(spark: Any) -> None:
    columns = {name: {"type": "timestamp", "epoch": name} for name in ("s", "ms", "us")}
    second = 1772366400  # AT
    given: list[Given] = [
        {"s": second, "ms": second * 1000 + 5, "us": second * 10**6 + 7},
        {"s": str(second), "ms": 0, "us": -1},
        {"s": 253402300800},
        {"s": second * 10**6},  # microseconds where seconds are meant
        {"ms": 2**63 - 1},
        {"ms": 2**70},
        {"us": -(2**63)},
        {"us": "2026-03-01"},
        {"s": 1.5},
    ]
    found = Found(spark, stream(route(columns=columns)), [("a", value) for value in given])
    first = found.row(0)
    naive = AT.replace(tzinfo=None)
    millis, micros = (datetime.timedelta(milliseconds=5), datetime.timedelta(microseconds=7))
    assert first == {"s": naive, "ms": naive + millis, "us": naive + micros}
    bad = ["s", "s", "ms", "ms", "us", "us", "s"]
    assert found.errors == [None, None, *[f"{name} can't be read as timestamp" for name in bad]]


def test_long_numbers_keep_their_digits(spark: Any) -> None:
    columns = {
        "money": {"type": "decimal(38, 18)", "path": "$.m"},
        "text": {"path": ["$.a.t", "$.t"]},
        "wide": {"type": "decimal(38, 0)"},
    }
    number, wide = "12345678901234567890.123456789012345678", "9" * 38
    cases = [
        (f'{{"m": {number}}}', "money", Decimal(number)),
        (f'{{"m": "{number}"}}', "money", Decimal(number)),
        (f'{{"m": -0.{"1" * 18}}}', "money", Decimal(f"-0.{'1' * 18}")),
        (f'{{"t": {number}}}', "text", number),
        (f'{{"a": {{"t": {number}}}}}', "text", number),
        (f'{{"a": {{"t": null}}, "t": {number}}}', "text", number),
        ('{"t": 1234567890123456.75}', "text", "1234567890123456.75"),
        ('{"t": "1234567890123456789.50"}', "text", "1234567890123456789.50"),
        (f'{{"wide": {wide}}}', "wide", Decimal(wide)),
        ('{"t": 10000000000000000000000}', "text", "10000000000000000000000"),
    ]
    found = Found(spark, stream(route(columns=columns)), [("a", text) for text, _, _ in cases])
    read = [found.row(n)[name] for n, (_, name, _) in enumerate(cases)]
    assert read == [value for _, _, value in cases]
    assert found.errors == [None] * len(cases)


def test_several_paths_and_the_whole_record(spark: Any) -> None:
    columns = {
        "id": {"path": ["$.after.id", "$.before.id", "$.id"], "type": "int", "required": True},
        "raw": {"path": "$"},
        "odd-name": {"path": "$.odd-name"},
    }
    columns["odd_name"] = columns.pop("odd-name")
    given = [
        '{"after": {"id": 1}, "before": {"id": 2}}',
        '{"after": null, "before": {"id": 2}}',
        '{"id": 3,   "x": 12345678901234567890.5}',
        '{"after": {}, "odd-name": "it\'s"}',
        '{"after": {"id": "x"}, "before": {"id": 2}}',
    ]
    found = Found(spark, stream(route(columns=columns)), [("a", text) for text in given])
    assert found.column("id") == [1, 2, 3, None, None]
    assert found.column("raw") == given
    assert found.column("odd_name")[3] == "it's"
    missing = "id is missing at $.after.id or $.before.id or $.id"
    assert found.errors == [None, None, None, missing, "id can't be read as int"]


def test_operations_and_what_a_delete_needs(spark: Any) -> None:
    columns = {"id": {"type": "int"}, "name": {"required": True}, "n": {"type": "int"}}
    operation = {"path": "$.op", "insert": ["c", "r"], "update": "u", "delete": ["d", 0]}
    what = stream(route(columns=columns, key="id", operation=operation))
    cases: list[tuple[Given, bool, str | None]] = [
        ({"op": "c", "id": 1, "name": "a"}, False, None),
        ({"op": "u", "id": 1, "name": "a"}, False, None),
        ({"op": "d", "id": 1}, True, None),
        ({"op": 0, "id": 1, "n": "not a number"}, True, None),
        ({"op": "d"}, True, "id is missing at $.id"),
        ({"op": "d", "id": "x"}, True, "id can't be read as int"),
        ({"op": "u", "id": 1}, False, "name is missing at $.name"),
        ({"op": "c", "id": 1, "name": "a", "n": "x"}, False, "n can't be read as int"),
        ({"op": "x", "id": 1, "name": "a"}, False, "its operation at $.op is unknown"),
        ({"id": 1, "name": "a"}, False, "its operation at $.op is unknown"),
        ({"op": None, "id": 1}, False, "its operation at $.op is unknown"),
    ]
    found = Found(spark, what, [("a", value) for value, _, _ in cases])
    assert [found.all[n]["_deletes"] for n in range(len(cases))] == [d for _, d, _ in cases]
    assert found.errors == [error for _, _, error in cases]


def test_tombstones(spark: Any) -> None:
    records: list[tuple[str, Given]] = [("a", None), ("a", {"id": 1}), ("a", "")]
    assert Found(spark, stream(route()), records).errors == ["it has no value", None, OBJECT]
    skipped = Found(spark, stream(route(), tombstones="skip"), records)
    assert sorted(skipped.all) == [1, 2] and skipped.errors == [None, OBJECT]


def test_rules_of_quarantine(spark: Any) -> None:
    columns = {"id": "int", "amount": "decimal(12, 2)", "order": "string"}
    operation = {"path": "$.op", "insert": "c", "delete": "d"}
    own = route("t.own", topic="a", columns=columns, key="id", operation=operation)
    other = route("t.other", topic="b")
    rules = {
        "t.own": [
            Rule("not_below_zero", "amount is below 0", "AMOUNT < 0"),
            Rule("known_order", "unknown", "`order` not in ('x', 'it\\'s') or `order` is null"),
        ]
    }
    given: list[tuple[str, Given]] = [
        ("a", {"op": "c", "id": 1, "amount": 1, "order": "x"}),
        ("a", {"op": "c", "id": 1, "amount": -1, "order": "x"}),
        ("a", {"op": "c", "id": 1, "amount": 1, "order": "it's"}),
        ("a", {"op": "c", "id": 1, "amount": 1}),
        ("a", {"op": "c", "id": 1, "amount": "x", "order": "y"}),  # what can't be read is first
        ("a", {"op": "d", "id": 1, "amount": -1}),
        ("b", {"id": 1, "amount": -1}),
    ]
    found = Found(spark, stream(own, other), given, rules)
    assert found.errors == [
        None,
        "it fails the test not_below_zero: amount is below 0",
        None,
        "it fails the test known_order: unknown",
        "amount can't be read as decimal(12,2)",
        None,
        None,
    ]


def test_errors_hold_no_values(spark: Any) -> None:
    columns = {
        "id": {"type": "bigint", "required": True}, "day": "date", "at": "timestamp",
        "money": "decimal(4, 2)", "e": {"type": "timestamp", "epoch": "s"}, "yes": "boolean",
    }  # fmt: skip
    operation = {"path": "$.op", "insert": "c"}
    what = stream(route(columns=columns, key="id", operation=operation, when={"$.kind": "k"}))
    secret = "swordfish"
    good = {"kind": "k", "op": "c", "id": 1}
    given: list[Given] = [
        *({**good, name: secret} for name in (*columns, "kind", "op")),
        {**good, "money": 0.271828},
        f'{{"kind": "{secret}',
        secret,
        b'{"id": "swordfish\xff"}',
    ]
    found = Found(spark, what, [("a", value) for value in given])
    assert None not in found.errors
    assert not [error for error in found.errors if secret in error or "271828" in error]


def test_names_that_sql_would_take_for_its_own(spark: Any) -> None:
    columns = {"select": {"path": "$.from"}, "where": {"path": "$.it-is.all", "type": "int"}}
    what = stream(route(columns=columns, key="select", when={"$.order": "it's \\ a"}))
    found = Found(spark, what, [("a", {"from": "x", "it-is": {"all": 5}, "order": "it's \\ a"})])
    assert found.errors == [None]
    row = rows_of(found.frame, what, 0).first()
    assert row and (row["select"], row["where"]) == ("x", 5)


def test_routes_by_text_only(spark: Any) -> None:
    """A table of raw text needs no path, and still takes nothing but objects."""
    what = Stream.model_validate(
        {
            "name": "t",
            "source": {"folder": "f"},
            "routes": [Route.model_validate({"table": "t.t", "columns": {"raw": {"path": "$"}}})],
        }
    )
    found = Found(spark, what, [("f", '{"b": 1, "_": 5}'), ("f", "{}"), ("f", "7")])
    assert found.errors == [None, None, OBJECT]
    assert found.column("raw")[:2] == ['{"b": 1, "_": 5}', "{}"]


def test_what_is_read_the_quick_way(spark: Any) -> None:
    types = {"id": "bigint", "amount": "decimal(12,2)", "ok": "boolean", "share": "double"}
    columns = {name: {"type": kind} for name, kind in types.items()}
    what = stream(route(columns=columns | {"at": {"type": "timestamp", "epoch": "ms"}, "name": {}}))
    quick: list[Given] = [
        {"id": 1, "amount": 1.25, "ok": True, "share": 0.1, "at": 1772366400000, "name": "a"},
        {"id": None, "amount": -0.01, "unknown": "1"},
        '{"amount": 9999999999.99}',
        "{}",
        {"name": "no number"},
    ]
    slow: list[Given] = [
        {"id": "1"},
        {"id": 1.0},
        {"amount": 1.255},
        {"amount": 10000000000.0},
        {"share": float("nan")},
        {"ok": "true"},
        {"id": 1, "unknown": {}},
        {"id": 1, "name": "a } in a text"},
        '{"id": 1} ',
        '{"id": 1}{"id": 2}',
        " {}",
        "null",
        None,
    ]
    found = Found(spark, what, [("a", record) for record in [*quick, *slow]])
    assert found.quick == [True] * len(quick) + [False] * len(slow)
    assert found.row(0)["amount"] == Decimal("1.25") and found.row(0)["at"].year == 2026


def test_both_ways_read_numbers_as_one(spark: Any) -> None:
    random = Random(11)

    def number() -> str:
        digits = "".join(random.choices("0123456789", k=random.randint(1, 14))).lstrip("0") or "0"
        point = f".{random.randint(0, 10 ** random.randint(1, 9))}" if random.random() < 0.7 else ""
        return random.choice(["", "", "-"]) + digits + point + random.choice(["", "", "", "e-3"])

    types = "int bigint double decimal(12,2) decimal(18,6) decimal(5,5) decimal(9,0)".split()
    columns = {f"n{at}": {"type": kind} for at, kind in enumerate(types)}
    whole = [", ".join(f'"{name}": {number()}' for name in columns) for _ in range(1000)]
    records = [f"{{{each}}}" for each in whole]
    records += [f'{{"{random.choice([*columns])}": {number()}}}' for _ in range(3000)]
    found = Found(spark, stream(route(columns=columns)), [("a", each) for each in records])
    assert 1000 < sum(found.quick) < 3500

"""Odd records and what became of them: `python -m streams.odd` notes it, by the code of today.

What is noted is compared with later code, so that a quicker one can't read a record otherwise. It
is made anew only where another answer is wanted, and a look at what changed in the file says which.
"""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

from icegate.streams.config import Stream
from icegate.streams.parse import parsed
from icegate.streams.read import PARTIAL

NOTED = Path(__file__).with_name("odd.json")
AT = datetime.datetime(2026, 3, 1, 12, tzinfo=datetime.timezone.utc)
RECORD = (
    "source_topic string, source_partition int, source_offset bigint, source_time timestamp, "
    "_key binary, _value binary"
)
TYPES = (
    "string", "boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "date",
    "timestamp", "timestamp_ntz", "decimal(12,2)", "decimal(38,18)", "decimal(38,0)",
    "decimal(5,5)",
)  # fmt: skip
BARE = (
    "null true false 0 -0 -0.0 1 -1 007 +5 1. .5 1.0 1.5 1.50 100.000 1e2 1E+2 1e-2 1.5e1 0e0 "
    "1e400 1e-400 1e39 4e-19 0.5e-18 127 128 200 255 -129 32767 32768 40000 2147483647 2147483648 "
    "9223372036854775807 9223372036854775808 -9223372036854775809 12345678901234567890.25 "
    "0.1000000000000000055511151231257827 1.00500001 0.009999999999999999 1.0000000000000000001 "
    "9999999999.99 9999999999.994999999999999999 9999999999.995 0.12345 0.123456 2026 NaN Infinity "
    "-Infinity +Infinity nan 0x1F 1_000 1,5 [] [1] [1,2.50] {} {\"a\":1} {\"a\":01} tru True /**/1"
).split()  # fmt: skip
QUOTED = (
    "", " ", "\\t", "1", " 1 ", "+5", "-0", "007", "1,5", "1.5", "1.50", "1e2", "1.005", "0.0010",
    "1e-3", "1.e-9", "9999999999.99", "12345678901234567890.123456789012345678", "true", "FALSE",
    "t", "yes", "0", "null", "NaN", "Infinity", "-Infinity", "Inf", "1d", "1f", "0x1F", "2026",
    "2026-03", "2026-03-01", "2026-3-1", "2026-02-30", "0000-01-01", "10000-01-01", "-0001-01-01",
    "2026-03-01T12:00:00Z", "2026-03-01 12:00", "2026-03-01T12:00:00.1234567+02:00", "T12:00",
    "2026-03-01T12:00:00 Europe/Berlin", "2026-03-01T24:00:00", "2026-03-01T12:00:00z", "12:00:00",
    "2026-03-01T12:00:00,5", "1772366400", "now", "epoch", "today", "a \\u00e9 \\\\ \\\" \\n",
    "\\ud83d\\ude00", "\\ud83d", "\\u0000", "\\u0031", "\\x", "é", "１２", "1\\u00a0", "\\ufeff1",
    "1234567890123456.50", "1.50000000000000000", "-", ".", "...............1", "1234567890123456e",
)  # fmt: skip
WHOLE = (
    b"", b" ", b"null", b"1", b'"x"', b"[]", b"{}", b"{ }", b"[{}]", b"{}{}", b"{} {}", b"{},{}",
    b"{}, null", b"{},", b"{}]", b"{}}", b"{}],[{}", b"{}, {}], x", b'{"int": 1}, {}]',
    b'{"int": 1}, {"end": ""}], [', b"{} x", b"{} // x", b"{} /* x */", b"/**/{}",
    b"{'int': 1}", b"{int: 1}", b'{"int": 1,}', b'{"int" 1}', b'{"int": 1', b'{"int": ', b'{"int"}',
    b'{"int": 1, "int": 2}', b'{"int": "x", "int": 2}', b'{"int": 1, "int": null}',
    b'{"int": 1, "int": "x"}', b'{"INT": 1}', b'{"i\\u006et": 1}', b'\xef\xbb\xbf{"int": 1}',
    b'{"int": 1}\xff', b'{"string": "\xff"}', b'{"string": "\xc3\x28"}', b'{"x": "\xed\xa0\x80"}',
    b'{"string": "\xc0\x80"}', b'{"string": "\xf0\x9f\x98\x80"}', b"\x00", b'{"int": 1}\x00',
    b'{"in.side": {"int": 1}}', b'{"inside": {"int": 1}}', b'{"inside": {"int": "1,5"}}',
    b'{"inside": null}', b'{"inside": 1}', b'{"inside": []}', b'{"inside": {"int": {"int": 1}}}',
    b'{"second": 5}', b'{"first": null, "second": 5}', b'{"first": "x", "second": 5}',
    b'{"first": {}, "second": 5}', b'\t\r\n{"int"\t:\n1}\r\n ', b'{"int": 1}\x0b',
    b'{"int":\xc2\xa01}',
    b'{"unknown": 007}', b'{"unknown": NaN}', b'{"unknown": {"a": [1, {}]}}', b'{"unknown": [}',
    b'{"s": 253402300800}', b'{"s": 1.5}', b'{"s": "1772366400"}', b'{"ms": 9223372036854775807}',
    b'{"us": -253402300800000000}', b'{"us": -1}', b'{"s": 1e3}', b'{"s": true}',
)  # fmt: skip


def records() -> list[bytes]:
    """Return some 2,000: each odd value in a column of each type, and odd wholes."""
    values = [*BARE, *(f'"{text}"' for text in QUOTED), "1 ", " 1"]
    each = [f'{{"{named(kind)}": {value}}}'.encode() for kind in TYPES for value in values]
    return [*each, *WHOLE]


def what() -> Stream:
    """Return a stream with a column of each type, and the other ways to a value."""
    columns: dict[str, Any] = {
        named(kind): {"path": f"$.{named(kind)}", "type": kind} for kind in TYPES
    }
    columns["inside"] = {"path": "$.inside.int", "type": "int"}
    columns["either"] = {"path": ["$.first", "$.second"], "type": "int"}
    columns |= {
        of: {"path": f"$.{of}", "type": "timestamp", "epoch": of} for of in ("s", "ms", "us")
    }
    source = {"kafka": "127.0.0.1:1", "topics": ["a"]}
    routes = [{"table": "t.t", "columns": columns}]
    return Stream.model_validate({"name": "t", "source": source, "routes": routes})


def named(kind: str) -> str:
    return kind.rstrip(")").replace("(", "_").replace(",", "_")


def outcomes(spark: Any, quickly: bool = False) -> list[dict[str, Any]]:
    """Return of each record its error, or the values that it became, as text."""
    session = spark.newSession()
    for name, value in (PARTIAL | {"spark.sql.session.timeZone": "UTC"}).items():
        session.conf.set(name, value)
    given, names = records(), [*what().routes[0].columns]
    rows = [("a", 0, n, AT, None, value) for n, value in enumerate(given)]
    found = parsed(session.createDataFrame(rows, RECORD), what(), quickly=quickly)
    # A time without a date is one of today.
    said = "replace(cast(`_row_0.{0}` as string), cast(current_date() as string), 'today')"
    texts = [f"{said.format(name)} as `{name}`" for name in names]
    out = []
    for row in (
        found.selectExpr("source_offset", "_error", *texts).orderBy("source_offset").collect()
    ):
        values = {name: row[name] for name in names if row[name] is not None}
        became = {"error": row["_error"]} if row["_error"] else {"row": values}
        out.append({"record": given[row["source_offset"]].decode("latin-1"), **became})
    return out


def main() -> None:
    from icegate.session import start_session, stop_session
    from icegate.settings import Lake

    home = Path(__file__).resolve().parents[3] / ".icegate"
    spark = start_session(Lake(home=home, warehouse=home / "warehouse", ansi=True))
    lines = [json.dumps(each) for each in outcomes(spark)]
    NOTED.write_text("[\n" + ",\n".join(lines) + "\n]\n")
    stop_session()


if __name__ == "__main__":
    main()

"""Lines of a person are taken out of landing files, whose days stay whole."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from test_landing import mark

from erasure.forgetting import CUSTOMER, KEY, OTHERS
from icegate.catalog import CatalogEntry
from icegate.erasure.landing import Landing
from icegate.erasure.subject import Known, Subject
from icegate.erasure.texts import naming
from icegate.errors import ConfigError
from icegate.gate import staging
from icegate.gate.store import StoredTable
from icegate.landing import sha256

ORDER: dict[str, Any] = {"order_id": {"subject_key": "customer/order"}}
LINES = [
    {"customer_id": KEY, "note": None},
    {"customer_id": f" {KEY}\t", "note": "with blanks"},
    {"customer_id": 17, "note": {"said": [f"{KEY} called"]}},
    {"customer_id": OTHERS[0], "note": f"not {OTHERS[1]}"},
    {"note": "nobody's"},
]


def source(name: str, ending: str, kind: str, columns: dict[str, Any]) -> dict[str, Any]:
    return {
        "source_name": "shop",
        "name": name,
        "config": {"meta": {"location": f"landing/*/{name}-*.{ending}", "format": kind}},
        "columns": {c: {"name": c, "data_type": "string", "config": {"meta": meta}}
                    for c, meta in columns.items()},
    }  # fmt: skip


@pytest.fixture
def known() -> Known:
    texts = {"note": {"subject_text": True}}
    sources = [
        source("customers", "jsonl", "json", {**CUSTOMER, **texts}),
        source("orders", "parquet", "parquet", {**CUSTOMER, **ORDER}),
        source("items", "jsonl", "json", ORDER),
    ]
    return Known({"nodes": {}, "sources": {each["name"]: each for each in sources}})


@pytest.fixture
def day(tmp_path: Path) -> Path:
    """A day of three files with its marker."""
    folder = tmp_path / "landing" / "2026-01-01"
    folder.mkdir(parents=True)
    lines = [json.dumps(line) for line in LINES] + ["", f'{{"cut off, of {KEY}', "{cut off"]
    (folder / "customers-0.jsonl").write_text("\n".join(lines) + "\n")
    orders = {"customer_id": [KEY, OTHERS[0]], "order_id": ["O-17-1", "O-18-1"]}
    parquet.write_table(pa.table(orders), folder / "orders-0.parquet")
    items = [{"order_id": "O-17-1"}, {"order_id": "O-18-1"}]
    (folder / "items-0.jsonl").write_text("".join(json.dumps(item) + "\n" for item in items))
    for name, rows in {"customers-0.jsonl": 7, "orders-0.parquet": 2, "items-0.jsonl": 2}.items():
        mark(folder / name, rows=rows)
    return folder


def landing(project: Path, known: Known) -> Landing:
    found = Landing(project, known, Subject.of(f"customer={KEY}", known.kinds), project)
    found.finish()
    found.gather()
    return found


def take_out(project: Path, known: Known) -> dict[str, int]:
    """Take all rows out; return how many, by file."""
    work = landing(project, known)
    found = work.look()
    for landed in found:
        work.take_out(landed)
    return {landed.path.name: landed.rows for landed in found}


def check(day: Path) -> None:
    """See that only the customer's are gone, and that the marker is right."""
    left = (day / "customers-0.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in left[:2]] == LINES[3:]
    assert left[2:] == ["", "{cut off"]
    assert parquet.read_table(day / "orders-0.parquet").to_pydict() == {
        "customer_id": [OTHERS[0]],
        "order_id": ["O-18-1"],
    }
    assert (day / "items-0.jsonl").read_text() == '{"order_id": "O-18-1"}\n'
    promised = json.loads((day / "_SUCCESS").read_text())["files"]
    assert {name: file["rows"] for name, file in promised.items()} == {
        "customers-0.jsonl": 3,
        "orders-0.parquet": 1,
        "items-0.jsonl": 1,
    }
    assert all(file["bytes"] == (day / name).stat().st_size for name, file in promised.items())
    assert sorted(path.name for path in day.iterdir()) == ["_SUCCESS", *sorted(promised)]


def test_lines_and_rows_are_taken_out(tmp_path: Path, day: Path, known: Known) -> None:
    assert take_out(tmp_path, known) == {
        "customers-0.jsonl": 4,
        "orders-0.parquet": 1,
        "items-0.jsonl": 1,
    }
    check(day)
    # What orders were theirs is known no more, and nothing is left that names them.
    assert take_out(tmp_path, known) == {}


def test_checksums_are_made_again(tmp_path: Path, day: Path, known: Known) -> None:
    marker = json.loads((day / "_SUCCESS").read_text())
    marker["files"]["items-0.jsonl"]["sha256"] = sha256(day / "items-0.jsonl")
    (day / "_SUCCESS").write_text(json.dumps(marker))
    take_out(tmp_path, known)
    promised = json.loads((day / "_SUCCESS").read_text())["files"]
    assert promised["items-0.jsonl"]["sha256"] == sha256(day / "items-0.jsonl")
    assert "sha256" not in promised["orders-0.parquet"]


@pytest.mark.parametrize("stop_at", range(9))
def test_stopped_at_any_step(
    tmp_path: Path, day: Path, known: Known, stop_at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, left = os.replace, [stop_at]

    def replace(old: Path, new: Path) -> None:
        if not left[0]:
            raise KeyboardInterrupt
        left[0] -= 1
        real(old, new)

    orders = landing(tmp_path, known).subject  # an erasure keeps the keys in its journal
    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", replace)
        with pytest.raises(KeyboardInterrupt):
            take_out(tmp_path, known)
    work = Landing(tmp_path, known, orders, tmp_path)
    work.finish()
    for landed in work.look():
        work.take_out(landed)
    check(day)


def test_half_a_file_of_one_that_was_killed_goes(tmp_path: Path, day: Path, known: Known) -> None:
    (day / "items-0.jsonl.erasing").write_text("{")
    landing(tmp_path, known)
    assert "items-0.jsonl.erasing" not in {path.name for path in day.iterdir()}


@pytest.mark.parametrize("final", ["s.a__b", "s.a__b__quarantine", "S.A__B"])
def test_a_table_in_staging_has_the_columns_of_what_it_is_to_become(final: str) -> None:
    columns = {"id": {"name": "id", "config": {"meta": CUSTOMER["customer_id"]}}}
    node = {"resource_type": "model", "unique_id": "model.t.b", "schema": "s", "alias": "a__b",
            "columns": columns, "config": {}, "depends_on": {}}  # fmt: skip
    found = Known({"nodes": {"model.t.b": node}})
    name = staging.staging_name(final.lower(), "nightly")
    entry = CatalogEntry(staging.NAMESPACE, name, "table", "file:/none")
    assert [*found.of(StoredTable(entry, {})).keys] == ["id"]


def test_a_file_that_nobody_can_read(tmp_path: Path, day: Path, known: Known) -> None:
    (day / "orders-0.parquet").write_bytes(b"PAR1 is cut off")
    work = Landing(tmp_path, known, Subject.of(f"customer={KEY}", known.kinds), tmp_path)
    (found,) = [landed for landed in work.look() if landed.why]
    assert "orders-0.parquet can't be read" in found.why


def test_reports_and_logs_go_and_own_files_are_told(tmp_path: Path, known: Known) -> None:
    texts = {
        "logs/dbt.log.1": f"{KEY}",
        "target/run/x.sql": f"= '{KEY}'",
        "target/other.json": f"{OTHERS[1]} only",
        "reports/a.html": f"<td>{KEY}</td>",
        "reports/by-hand.docx": f"of {KEY}",
        "models/one.sql": f"where id != '{KEY}'",
        "elsewhere.txt": KEY,
        "logs/empty.log": "",
    }
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    subject = Subject.of(f"customer={KEY}", known.kinds)
    found = {str(path.relative_to(tmp_path)): out for path, out in naming(tmp_path, subject)}
    assert found == {
        "logs/dbt.log.1": True,
        "target/run/x.sql": True,
        "reports/a.html": True,
        "reports/by-hand.docx": False,
        "models/one.sql": False,
    }
    assert [*naming(tmp_path, Subject.of("customer=17", known.kinds))] == []


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("", "say customer=<key>, in quotes"),
        ("customer=", "it has no kind, or no key"),
        ("costumer=1", "did you mean 'customer'?"),
        ("order=1", "no column is marked `subject_key: order`"),
    ],
)
def test_whom_nobody_knows(known: Known, said: str, why: str) -> None:
    with pytest.raises(ConfigError) as error:
        Subject.of(said, known.kinds)
    assert why in str(error.value)


def test_a_project_without_marks() -> None:
    with pytest.raises(ConfigError) as error:
        Subject.of("customer=1", Known({"nodes": {}}).kinds)
    assert "no column says whose key it is" in str(error.value)

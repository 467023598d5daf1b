"""What a report may show of personal data."""

from __future__ import annotations

import datetime as dt
import subprocess
import sys
from typing import Any

import pytest

from icegate.pii import HIDDEN, kinds, masked


def test_kinds_come_from_meta_of_the_column_old_and_new() -> None:
    columns = {
        "Email": {"meta": {}, "config": {"meta": {"pii": "email"}}},
        "phone": {"meta": {"pii": "Phone"}},
        "note": {"meta": {"pii": True}, "config": {}},
        "pet": {"config": {"meta": {"pii": "animal"}}},
        "city": {"meta": {"pii": "address"}, "config": {"meta": {"pii": False}}},
        "amount": {"meta": {"unit": "USD"}, "config": {"meta": None}},
        "nothing": {},
    }
    assert kinds(columns) == {"email": "email", "phone": "phone", "note": "text", "pet": "animal"}


@pytest.mark.parametrize(
    ("kind", "value", "shown"),
    [
        ("email", "jane.doe@doe-family.com", f"j{HIDDEN}@{HIDDEN}.com"),
        ("email", " J@x.co.uk ", f"J{HIDDEN}@{HIDDEN}.uk"),
        ("email", "Jane Doe, jane@doe.com", HIDDEN),
        ("email", "<b>@doe.com", HIDDEN),
        ("phone", "+1 (415) 555-0142", f"{HIDDEN}42"),
        ("phone", 4155550142, f"{HIDDEN}42"),
        ("phone", "110", HIDDEN),
        ("phone", "415-555-0142 Jane", HIDDEN),
        ("card", "4111 1111 1111 1234", f"{HIDDEN}1234"),
        ("card", "1234", HIDDEN),
        ("name", "Jane Doe", f"J{HIDDEN}"),
        ("name", "Özil", f"Ö{HIDDEN}"),
        ("name", "<script>", HIDDEN),
        ("birthday", dt.date(1969, 5, 1), f"1969-{HIDDEN}"),
        ("birthday", "1 May 1969", HIDDEN),
        ("ip", "203.0.113.9", HIDDEN),
        ("address", {"street": "1 Main St"}, HIDDEN),
        ("id", 7, HIDDEN),
        ("id", "CUST-000123", f"{HIDDEN}23"),
        ("id", "Jane Doe 1969", HIDDEN),
        ("text", "a", HIDDEN),
        ("text", "a" * 500, HIDDEN),
        ("animal", "dog", HIDDEN),
        ("text", float("nan"), HIDDEN),
        ("phone", 0, HIDDEN),
    ],
)
def test_what_is_shown_of_a_value(kind: str, value: Any, shown: str) -> None:
    assert masked(value, kind) == shown


@pytest.mark.parametrize("kind", ["email", "phone", "name", "card", "birthday", "text", "animal"])
def test_nothing_stays_nothing(kind: str) -> None:
    assert masked(None, kind) is None
    assert masked("  ", kind) == ""


@pytest.mark.parametrize("kind", ["email", "phone", "name", "card", "birthday", "text"])
def test_one_mask_stands_for_many_values(kind: str) -> None:
    people = [(f"jane{n}@doe{n}.com", f"41555{n:03}42", f"Jane{n}") for n in range(100)]
    assert len({masked(value, kind) for person in people for value in person}) <= 4


def test_it_needs_neither_spark_nor_dbt() -> None:
    code = "import sys, icegate.pii; print({'pyspark', 'dbt', 'pyarrow'} & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"

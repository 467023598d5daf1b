"""The macros that anonymise and the tests that look for personal data, on values at the edges."""

from __future__ import annotations

import datetime as dt
import hashlib
import shutil
from typing import Any

import pytest
from conftest import ROOT, DbtProject

from icegate import hash_key

pytestmark = pytest.mark.slow

KEY = "a key that nobody may read 0123456789"
HIDDEN = "•••"
HASHED = "{{ config(materialized='table') }} select {{ keyed_hash('1') }} as h"


@pytest.fixture
def shop(project: DbtProject, monkeypatch: pytest.MonkeyPatch) -> DbtProject:
    """A project with this one's macros and generic tests, and a key in the environment."""
    monkeypatch.setenv(hash_key.VARIABLE, KEY)
    shutil.copytree(ROOT / "macros" / "anonymise", project.folder / "macros" / "anonymise")
    shutil.copytree(ROOT / "tests" / "generic", project.folder / "macros" / "generic")
    return project


def expected_hash(value: str, scope: str = "", key: str = KEY) -> str:
    inner = hashlib.sha256(f"{key}:{scope}:{value}".encode()).hexdigest()
    return hashlib.sha256(f"{key}{inner}".encode()).hexdigest()


def test_a_keyed_hash_is_the_same_for_a_key_and_null_for_null(shop: DbtProject) -> None:
    shop.write(
        "models/hashed.sql",
        """
        {{ config(materialized='table') }}
        select value, {{ keyed_hash('value') }} as plain, {{ keyed_hash('value', 'x') }} as scoped
        from values ('a'), (''), ('Zoë 日本'), (null), ('-1') as given(value)
        """,
    )
    run = shop.dbt("run")
    assert run.ok, run.text
    rows = {value: hashes for value, *hashes in shop.rows("select * from {s}.hashed")}
    assert rows.pop(None) == [None, None]
    assert rows == {v: [expected_hash(v), expected_hash(v, "x")] for v in rows} and len(rows) == 4


def test_the_key_is_in_no_artifact_no_log_and_no_error(shop: DbtProject) -> None:
    hashing = "select {{ keyed_hash('value') }} as hash from values ('a') as given(value)"
    shop.write("models/hashed.sql", "{{ config(materialized='table') }}\n" + hashing)
    shop.write("models/wrong.sql", hashing.replace("'a'", "assert_true(false)"))
    shop.write("models/worse.sql", "{{ config(materialized='table') }}\n" + hashing + " where no")
    shop.write(
        "models/merged.sql",
        "{{ config(materialized='incremental', unique_key='hash', incremental_strategy='merge') }}"
        + hashing,
    )
    shop.write_yaml(
        "models/m.yml",
        {"models": [{"name": "hashed", "columns": [{"name": "hash", "data_tests": ["unique"]}]}]},
    )
    for _ in range(2):  # the second one merges, and is the first to need the key
        hash_key._offered.clear()
        shop.spark.catalog.dropTempView(hash_key.VIEW)
        run = shop.dbt("--log-level-file", "debug", "build")
        assert {run.status[name] for name in ("hashed", "merged")} == {"success"}, run.text
        # A view that stays would keep what it reads: Spark refuses it.
        assert run.status["wrong"] == run.status["worse"] == "error"
        assert "fix: make it a table" in run.message["wrong"]
    shop.dbt("docs", "generate")
    plan = shop.spark.sql(f"explain extended select * from {hash_key.VIEW}").collect()[0][0]
    told = [run.text, plan]
    files = [path for path in shop.folder.rglob("*") if path.is_file()]
    assert {"manifest.json", "run_results.json", "dbt.log"} <= {path.name for path in files}
    told += [path.read_bytes().decode(errors="replace") for path in files]
    assert not [text for text in told if KEY in text]
    stored = [p for p in (shop.lake.warehouse / shop.schema).rglob("*") if p.is_file()]
    assert stored and not [path for path in stored if KEY.encode() in path.read_bytes()]


@pytest.mark.parametrize(("key", "why"), [("", "shorter than 16"), ("xyz", "shorter than 16")])
def test_a_weak_key_is_refused(
    shop: DbtProject, monkeypatch: pytest.MonkeyPatch, key: str, why: str
) -> None:
    monkeypatch.setenv(hash_key.VARIABLE, key)
    shop.write("models/hashed.sql", HASHED)
    run = shop.dbt("run")
    assert why in run.message["hashed"] and "fix: set it to a long random text" in run.text


def test_without_a_key_the_home_has_one_of_its_own(
    shop: DbtProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(hash_key.VARIABLE)
    shop.write("models/hashed.sql", HASHED)
    assert shop.dbt("run").ok
    file = shop.lake.home / "hash_key"
    assert file.stat().st_mode & 0o777 == 0o600
    assert shop.rows("select h from {s}.hashed") == [(expected_hash("1", key=file.read_text()),)]


MASKED = """
select
    value,
    {{ mask('value') }} as whole,
    {{ mask('value', show_first=1, show_last=2) }} as ends
from values (null), (''), ('ab'), ('abcdefgh'), ('abcdefghi'), ('日本語日本語日本語'), ('<b>x</b>y')
    as given(value)
"""


def test_a_mask_hides_all_where_the_ends_would_be_too_much(shop: DbtProject) -> None:
    shop.write("models/masked.sql", MASKED)
    run = shop.dbt("run")
    assert run.ok, run.text
    assert {value: tuple(shown) for value, *shown in shop.rows("select * from {s}.masked")} == {
        None: (None, None),
        "": (HIDDEN, HIDDEN),
        "ab": (HIDDEN, HIDDEN),
        "abcdefgh": (HIDDEN, HIDDEN),
        "abcdefghi": (HIDDEN, f"a{HIDDEN}hi"),
        "日本語日本語日本語": (HIDDEN, f"日{HIDDEN}本語"),
        "<b>x</b>y": (HIDDEN, f"<{HIDDEN}>y"),
    }


def test_generalising_goes_down_to_the_border_of_a_band(shop: DbtProject) -> None:
    shop.write(
        "models/coarse.sql",
        """
        select
            {{ generalise('amount', width=50) }} as band,
            {{ generalise('amount / 100', width=0.5) }} as small_band,
            {{ generalise('day', unit='month') }} as month,
            {{ generalise('place', regions={'USA': 'Americas', "Côte d'Ivoire": 'Africa'}) }}
                as region
        from values
            (49.99, date '2026-01-31', 'USA'), (50.00, date '1969-12-31', 'Atlantis'),
            (-0.01, date '0999-02-28', ''), (null, null, null),
            (0.00, date '2024-02-29', 'Côte d\\'Ivoire')
            as given(amount, day, place)
        """,
    )
    run = shop.dbt("run")
    assert run.ok, run.text
    assert shop.rows("select int(band), float(small_band), month, region from {s}.coarse") == [
        (0, 0.0, dt.date(2026, 1, 1), "Americas"),
        (50, 0.5, dt.date(1969, 12, 1), "other"),
        (-50, -0.5, dt.date(999, 2, 1), "other"),
        (None, None, None, None),
        (0, 0.0, dt.date(2024, 2, 1), "Africa"),
    ]
    shop.write("models/coarse.sql", "select {{ generalise('1', width=1, unit='month') }} as wrong")
    assert "give one of width, unit and regions" in shop.dbt("run").text


def test_a_rare_group_is_suppressed_by_its_people_not_its_rows(shop: DbtProject) -> None:
    shop.write(
        "models/suppressed.sql",
        """
        select who, {{ suppress('city', ['city', 'age'], 3, 'who') }} as city
        from values
            ('a', 'Rome', 40), ('b', 'Rome', 40), ('c', 'Rome', 40), ('a', 'Rome', 50),
            ('d', 'Oslo', 40), ('d', 'Oslo', 40), ('d', 'Oslo', 40), (null, 'Oslo', 40),
            ('e', null, null), ('f', null, null), ('g', null, null)
            as given(who, city, age)
        """,
    )
    run = shop.dbt("run")
    assert run.ok, run.text
    shown = shop.rows("select who, city from {s}.suppressed where city is not null order by who")
    assert shown == [("a", "Rome"), ("b", "Rome"), ("c", "Rome")]


def test_dates_of_a_subject_move_together_and_keep_their_intervals(shop: DbtProject) -> None:
    shop.write(
        "models/shifted.sql",
        """
        {{ config(materialized='table') }}
        select
            who, day, at, {{ date_shift('day', 'who', 30) }} as moved,
            {{ date_shift('at', 'who', 30, 'timestamp') }} as moved_at
        from (
            select
                if(id % 50 = 0, null, concat('person ', id % 50)) as who,
                date_add(date '1969-12-25', int(id)) as day,
                timestampadd(hour, int(id), timestamp '1969-12-25 23:00:00') as at
            from range(500)
        )
        """,
    )
    run = shop.dbt("run")
    assert run.ok, run.text
    rows = shop.rows("select who, day, at, moved, moved_at from {s}.shifted")
    by: dict[Any, set[Any]] = {}
    for who, day, at, moved, moved_at in rows:
        by.setdefault(who, set()).add((moved and (moved - day).days, moved_at and moved_at - at))
    assert by.pop(None) == {(None, None)}
    assert len(by) == 49 and all(len(shifts) == 1 for shifts in by.values())
    days = [shift for ((shift, _),) in by.values()]
    assert all(moved == dt.timedelta(days=shift) for ((shift, moved),) in by.values())
    assert min(days) >= -30 and max(days) <= 30 and len(set(days)) > 20


# Kinds that must be found in a text; none is text that only looks so.
FOUND = {
    "write to jane.doe+x@mail.example.co.uk, please": ["email"],
    "zoë@bücher.example": ["email"],
    "mailto:x@y.de": ["email"],
    "no @ sign @ all": [],
    "user@localhost": [],
    "+1 (415) 555-0142": ["phone"],
    "tel:+81-3-1234-5678.": ["phone"],
    "call 415.555.0142 now": ["phone"],
    "(415) 555-0142": ["phone"],
    "order 4155550142": [],
    "ORD-0000004155550142": [],
    "2026-01-01 10:05:00.123456": [],
    "1767225600000": [],
    "4111111111111111": ["card"],
    "4111 1111-1111 1111 and more": ["card"],
    "5500005555555559": ["card"],
    "378282246310005": ["card"],
    "6011111111111117": ["card"],
    "3530111333300000": ["card"],
    "30569309025904": ["card"],
    "4111111111111112": [],
    "41111111111111111111111": [],
    "ORD-4111111111111111": [],
    "0000000000000000": [],
    "078-05-1120": ["national_id"],
    "000-05-1120 666-05-1120 078-00-1120": [],
    "QQ 12 34 56 C": [],
    "AB 12 34 56 C": ["national_id"],
    "203.0.113.9": ["ip"],
    "from 203.0.113.9.": ["ip"],
    "999.1.1.1": [],
    "1.2.3": [],
    "1.2.3.4.5": [],
    "256.0.0.1": [],
    "2001:db8::8a2e:370:7334": ["ip"],
    "2001:0db8:0000:0000:0000:8a2e:0370:7334": ["ip"],
    "10:05:00": [],
    "std::vector": [],
    "": [],
    "a" * 10_000: [],
}


def test_what_counts_as_personal_data_in_a_text(shop: DbtProject) -> None:
    texts = ", ".join(f"({text!r})" for text in [*FOUND, None]).replace("(None)", "(null)")
    kinds = "['email', 'phone', 'card', 'national_id', 'ip']"
    shop.write(
        "models/found.sql",
        f"select text, {{{{ pii_found('text', {kinds}) }}}} as kinds "
        f"from values {texts} as given(text)",
    )
    run = shop.dbt("run")
    assert run.ok, run.text
    found = dict(shop.rows("select text, kinds from {s}.found"))
    assert found.pop(None) == []
    assert found == FOUND


def test_no_pii_tells_column_and_kind_and_never_the_value(shop: DbtProject) -> None:
    shop.write(
        "models/people.sql",
        """
        {{ config(materialized='table') }}
        select
            4155550142 as order_id, 4111111111111111 as paid_with, 'x@example.com' as note,
            map('street', '1 Main St', 'phone', '415-555-0142') as address, string(null) as nothing,
            date '2026-01-01' as day, 1.0E10 as size
        """,
    )
    numbers = {"arguments": {"columns": ["order_id"], "kinds": ["phone_digits"]}}
    address = {"name": "address", "data_tests": [{"no_pii": {"name": "of_address"}}]}
    tests = [
        {"no_pii": {"name": "of_all", "config": {"store_failures": True}}},
        {"no_pii": {"name": "of_numbers", **numbers}},
        {"no_pii": {"name": "of_cards", "arguments": {"columns": ["day", "size", "nothing"]}}},
    ]
    shop.write_yaml(
        "models/m.yml",
        {"models": [{"name": "people", "data_tests": tests, "columns": [address]}]},
    )
    run = shop.dbt("build")
    assert {name: status for name, status in run.status.items() if name != "people"} == {
        "of_all": "fail",
        "of_numbers": "fail",
        "of_cards": "pass",
        "of_address": "fail",
    }, run.text
    stored = shop.rows("select * from {s}_dbt_test__audit.of_all")
    assert sorted(stored) == [("address", "phone"), ("note", "email"), ("paid_with", "card")]


RULES = {
    "is_masked": {
        "name": "masked", "column": "hash",
        "arguments": {"pattern": r"[0-9a-f]{4}|it's \d"},
    },
    "k_anonymity": {
        "name": "anonymous",
        "arguments": {"quasi_identifiers": ["city", "age"], "k": 2},
    },
    "no_data_loss": {
        "name": "lossless",
        "arguments": {
            "upstream": "ref('before')", "key": ["id", "part"], "allowed": {"gone": "is_gone"},
        },
    },
    "row_count_reconciles": {
        "name": "reconciled",
        "arguments": {"upstream": "ref('before')", "upstream_where": "not is_gone"},
    },
}  # fmt: skip


def place_rules(shop: DbtProject, before: str, after: str, **more: Any) -> Any:
    shop.write(
        "models/before.sql",
        "{{ config(materialized='table') }} select * from values "
        f"{before} as given(id, part, is_gone)",
    )
    shop.write(
        "models/after.sql",
        "{{ config(materialized='table') }} select int(id) as id, part, string(hash) as hash, "
        "string(city) as city, int(age) as age, who from values "
        f"{after} as given(id, part, hash, city, age, who)",
    )
    of_model, of_columns = [], []
    for kind, rule in RULES.items():
        arguments = {**rule["arguments"], **more.get(kind, {})}  # type: ignore[dict-item]
        test = {kind: {"name": rule["name"], "arguments": arguments}}
        if "column" in rule:
            of_columns.append({"name": rule["column"], "data_tests": [test]})
        else:
            of_model.append(test)
    shop.write_yaml(
        "models/m.yml",
        {"models": [{"name": "after", "data_tests": of_model, "columns": of_columns}]},
    )
    run = shop.dbt("build")
    return {name: status for name, status in run.status.items() if name not in ("before", "after")}


GOOD = ["(1, 1, '00ff', 'Rome', 40, 'a')", "(2, 1, null, 'Rome', 40, 'b')"]
BEFORE = ["(1, 1, false)", "(2, 1, false)", "(3, 1, true)"]
CASES: dict[str, tuple[list[str], list[str], dict[str, Any], set[str]]] = {
    "all is well": (BEFORE, GOOD, {}, set()),
    "a value in clear": (BEFORE, [GOOD[0], "(2, 1, 'jane', 'Rome', 40, 'b')"], {}, {"masked"}),
    "a mask in a value": (BEFORE, [GOOD[0], "(2, 1, 'x00ff', 'Rome', 40, 'b')"], {}, {"masked"}),
    "a pattern with a quote": (BEFORE, [GOOD[0], "(2, 1, 'it\\'s 5', 'Rome', 40, 'b')"], {}, set()),
    "someone stands out": (BEFORE, [GOOD[0], "(2, 1, null, 'Oslo', 40, 'b')"], {}, {"anonymous"}),
    "half suppressed": (BEFORE, [GOOD[0], "(2, 1, null, null, 40, 'b')"], {}, {"anonymous"}),
    "wholly suppressed": (
        ["(1, 1, false)"], ["(1, 1, '00ff', null, null, 'a')"], {}, set(),
    ),
    "two rows of one person": (
        BEFORE, [GOOD[0], "(2, 1, null, 'Rome', 40, 'a')"],
        {"k_anonymity": {"subject": "who"}}, {"anonymous"},
    ),
    "a row is lost": (BEFORE, GOOD[:1], {}, {"anonymous", "lossless", "reconciled"}),
    "a row has half of its key": (
        BEFORE, [GOOD[0], GOOD[1].replace("(2, 1", "(2, 2")], {}, {"lossless"},
    ),
    "a row without a key": (
        [*BEFORE, "(null, 1, null)"], GOOD, {}, {"lossless"},
    ),
    "a row too many": (BEFORE[:1] + BEFORE[2:], GOOD, {}, {"reconciled"}),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_what_each_rule_lets_pass(shop: DbtProject, case: str) -> None:
    before, after, more, failing = CASES[case]
    status = place_rules(shop, ", ".join(before), ", ".join(after), **more)
    assert {name for name, said in status.items() if said == "fail"} == failing, status
    assert set(status.values()) <= {"pass", "fail"} and len(status) == 4

"""`icegate diff` of rows as a person runs it: versions, tables, schemas, and pages of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.types import StringType
from released import change, two_releases
from shop import Ran, lake_of, make_project, run_icegate

from icegate.catalog import open_catalog

pytestmark = pytest.mark.slow

Run = Callable[..., Ran]
ORDERS = "silver.curated_orders"


def rows(ids: str, mails: list[str | None], totals: list[int], **more: list[Any]) -> pa.Table:
    """Return orders, with other columns after the usual ones."""
    return pa.table({"order_id": [*ids], "email": mails, "total": totals, **more})


def describe(folder: Path, key: Any = None, test: str = "") -> None:
    """Write a manifest in which the e-mail of an order is personal, and maybe what its key is."""
    columns = {
        "order_id": {"name": "order_id"},
        "email": {"name": "email", "meta": {"pii": "email"}},
    }
    node = {"resource_type": "model", "schema": "silver", "alias": "curated_orders",
            "columns": columns, "config": {"unique_key": key}}  # fmt: skip
    nodes: dict[str, Any] = {"model.shop.curated_orders": node}
    if test:
        of = {"attached_node": "model.shop.curated_orders", "resource_type": "test"}
        asked = {"name": "unique", "kwargs": {"column_name": test}}
        nodes["test.u"] = {**of, "test_metadata": asked, "column_name": test, "config": {}}
    (folder / "target").mkdir(exist_ok=True)
    (folder / "target" / "manifest.json").write_text(json.dumps({"nodes": nodes}))


def make_orders(folder: Path) -> None:
    """Make orders of three versions: the tag `opening`, one more row, and columns that changed."""
    lake = lake_of(folder)
    lake.home.mkdir(parents=True)
    catalog = open_catalog(lake)
    for schema in ("silver", "pr_12"):
        catalog.create_namespace(schema)
    first = rows("ABC", ["ann@example.com", "bob@example.com", None], [5, 7, 9])
    orders = catalog.create_table(ORDERS, first.schema)
    orders.append(first)
    with orders.manage_snapshots() as manage:
        manage.create_tag(orders.current_snapshot().snapshot_id, "opening")
    with orders.update_schema() as update:
        update.rename_column("email", "mail").add_column("note", StringType())
    later = pa.table({"order_id": ["A", "B", "D"],
                      "mail": ["ann@example.com", "bea@example.com", "dan@example.com"],
                      "total": [5, 7, 1], "note": ["", "a|b `c` @all <b>", None]})  # fmt: skip
    orders.overwrite(later)
    built = rows("ABCD", ["ann@example.com"] * 4, [5, 8, 9, 1], extra=[1, 2, 3, 4])
    catalog.create_table("pr_12.curated_orders", built.schema).append(built)
    catalog.create_table("silver.untouched", first.schema)
    catalog.create_table("pr_12.fresh", first.schema).append(first)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = make_project(tmp_path_factory.mktemp("diff") / "a b")
    make_orders(made)
    describe(made, key="order_id")
    return made


@pytest.fixture
def icegate(folder: Path) -> Run:
    return lambda *arguments: run_icegate(folder, *arguments)


def lines(ran: Ran) -> list[list[str]]:
    assert ran.code == 0, ran.err
    return [line.split() for line in ran.out.splitlines() if line]


def test_two_versions_of_a_table_differ_in_columns_and_rows(icegate: Run) -> None:
    ran = icegate("diff", "opening", "main", ORDERS)
    head, facts, title, changed, columns, *told = lines(ran)
    assert head[-8:] == [
        "columns",
        "added",
        "columns",
        "renamed",
        "added",
        "removed",
        "changed",
        "compared",
    ]
    assert facts[-9:] == ["note", "email", "->", "mail", "1", "1", "2", "changed", "files"]
    assert (title, changed) == ([f"{ORDERS},", "by", "order_id"], ["changed", "columns"])
    assert columns == ["column", "rows", "key", "before", "after"]
    assert told[:3] == [
        ["note", "2", "A", "null"],
        ["B", "null", "a|b", "`c`", "@all", "<b>"],
        ["mail", "1", "B", "b•••@•••.com", "b•••@•••.com"],
    ]
    assert told[3:] == [
        ["added", "rows"], ["order_id", "mail", "total", "note"],
        ["D", "d•••@•••.com", "1", "null"],
        ["removed", "rows"], ["order_id", "mail", "total", "note"], ["C", "null", "9", "null"],
    ]  # fmt: skip
    assert "masked: mail; `--unmasked` shows them" in ran.err
    assert "bea@example.com" in icegate("diff", "opening", "main", ORDERS, "--unmasked").out


def test_json_has_all_of_it_and_the_first_shape_stays(icegate: Run) -> None:
    (found,) = icegate("diff", "main", "opening", ORDERS, "--json").json["tables"]
    assert (found["columns_dropped"], found["columns_renamed"]) == (["note"], ["mail -> email"])
    assert (found["rows"], found["files_added"], found["files_removed"]) == (0, 1, 1)
    assert (found["added"], found["removed"], found["changed"]) == (1, 1, 1)
    assert (found["compared"], found["files_read"], found["key"]) == (
        "changed files", 2, ["order_id"])  # fmt: skip
    (email,) = found["columns"]
    example = {"key": {"order_id": "B"}, "before": "b•••@•••.com", "after": "b•••@•••.com"}
    assert email == {"column": "email", "rows": 1, "examples": [example]}
    assert found["examples"]["added"] == [{"order_id": "C", "email": None, "total": 9}]


def test_what_is_the_same_is_proved_without_a_data_file(folder: Path, icegate: Run) -> None:
    catalog = open_catalog(lake_of(folder))
    head = catalog.load_table(ORDERS).current_snapshot().snapshot_id
    ran = icegate("diff", str(head), "main", ORDERS)
    assert ran.out == f"{head} and main are the same\nno file differs, so none was read\n"
    ran = icegate("diff", str(head), "main", ORDERS, "--json")
    assert ran.json["tables"][0]["compared"] == "metadata"
    assert ran.json["tables"][0]["files_read"] == 0
    assert icegate("diff", "main", "main", ORDERS, "--key", "order").code == 2


def test_two_schemas_are_compared_by_names_of_columns(icegate: Run) -> None:
    ran = icegate("diff", "silver", "pr_12")
    text = ran.out
    assert "pr_12.curated_orders, by order_id" in text
    assert "with silver.curated_orders: two tables have no files and no field ids in common" in text
    facts = {t["table"]: t for t in icegate("diff", "silver", "pr_12", "--json").json["tables"]}
    found = facts["pr_12.curated_orders"]
    assert (found["with"], found["compared"], found["files_added"]) == (ORDERS, "all rows", None)
    assert (found["columns_added"], found["columns_dropped"]) == (
        ["email", "extra"], ["mail", "note"])  # fmt: skip
    assert [found[kind] for kind in ("added", "removed", "changed")] == [1, 0, 1]
    assert [(c["column"], c["rows"]) for c in found["columns"]] == [("total", 1)]
    assert (facts["pr_12.fresh"]["compared"], facts["pr_12.fresh"]["rows"]) == ("new table", 3)
    assert "only in silver: untouched" in ran.err


def test_two_tables_are_compared_by_what_a_test_says_is_unique(folder: Path, icegate: Run) -> None:
    asked = ("diff", ORDERS, "pr_12.curated_orders")
    describe(folder)
    ran = icegate(*asked)
    assert ran.code == 2
    assert "no key of it is known" in ran.err
    assert "as in --key order_id, or test that with `unique`" in ran.err
    # Of several tables, the others are compared, and this one says why it isn't.
    ran = icegate("diff", "silver", "pr_12", "--json")
    error = {t["table"]: t["error"] for t in ran.json["tables"]}
    assert (ran.code, error["pr_12.fresh"]) == (1, None)
    assert "no key of it is known" in error["pr_12.curated_orders"]
    describe(folder, test="order_id")
    assert icegate(*asked, "--json").json["tables"][0]["key"] == ["order_id"]
    describe(folder, key="order_id")


def test_a_comment_for_a_pull_request_shows_no_markup_of_values(icegate: Run) -> None:
    ran = icegate("diff", "opening", "main", ORDERS, "--markdown", "-")
    assert ran.out.splitlines()[:8] == [
        "### opening → main",
        "",
        "| table | rows | files added | files removed | columns added | columns renamed | added |"
        " removed | changed | compared |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
        f"| {ORDERS} | 0 | 1 | 1 | note | `email -> mail` | 1 | 1 | 2 | changed files |",
        "",
        f"### {ORDERS}, by order_id",
        "",
    ]
    assert "|  |  | B | null | `` a\\|b `c` @all <b> `` |" in ran.out
    assert "example.com" not in ran.out
    tables = [line for line in ran.out.splitlines() if line.startswith("|")]
    assert {line.replace("\\|", "").count("|") for line in tables} <= {11, 6, 5}


def test_a_page_needs_nothing_else_and_is_written_beside_a_comment(
    folder: Path, icegate: Run, tmp_path: Path
) -> None:
    page, comment = tmp_path / "out" / "diff.html", tmp_path / "out" / "diff.md"
    asked = ("diff", "opening", "main", ORDERS, "--html", str(page), "--markdown", str(comment))
    ran = icegate(*asked)
    assert ran.code == 0
    assert ran.out.startswith("table ")
    told = page.read_text()
    assert "<td>a|b `c` @all &lt;b&gt;</td>" in told
    assert (
        "example.com" not in told
        and "<script" not in told
        and "http" not in told.partition("</head>")[2]
    )
    assert comment.read_text().startswith("### opening → main")
    # What is personal must be known before rows are written for others.
    page.unlink()
    (folder / "target" / "manifest.json").rename(tmp_path / "manifest.json")
    ran = icegate(*asked, "--key", "order_id")
    (tmp_path / "manifest.json").rename(folder / "target" / "manifest.json")
    assert (ran.code, page.exists()) == (2, False)
    assert "what is personal data isn't known before `dbt parse`" in ran.err


@pytest.mark.parametrize(
    ("asked", "code", "why"),
    [
        (("openings", "main", ORDERS), 2, "did you mean 'opening'?"),
        (("opening", "main", "pr_12.fresh"), 2, "the table has no tag or branch of this name"),
        (("1234567890123", "main", ORDERS), 1, "it has expired, or is another table's"),
        (("2001-01-01", "main", ORDERS), 2, "the table wasn't there yet: its first rows came at"),
        (("release_9", "main", ORDERS), 2, "the last release is 0"),
        (("9", "main"), 2, "the last release is 0"),
        (("opening", "main", ORDERS, "--key", "orders"), 2, "did you mean 'order_id'?"),
        (("opening", "main", ORDERS, "--key", "note"), 2, "no column 'note' that both have"),
        ((ORDERS, "pr_12.curated_orders", "--key", "email"), 2, "no column 'email' that both"),
        ((ORDERS, "pr_12.curated"), 2, "the catalog has no such table"),
        (("silver", "main"), 2, "main is none that has tables"),
        (("silver", "gold"), 2, "gold is none that has tables"),
        (("opening", "main", "silver.curated"), 2, "the catalog has no such table"),
    ],
)
def test_what_cannot_be_compared_is_said(
    folder: Path, icegate: Run, asked: tuple[str, ...], code: int, why: str
) -> None:
    before = sorted(lake_of(folder).warehouse.rglob("*"))
    ran = icegate("diff", *asked)
    assert ran.code == code, ran.err
    assert why in ran.err
    assert "fix: " in ran.err
    assert sorted(lake_of(folder).warehouse.rglob("*")) == before


def test_a_key_that_two_rows_have_is_refused(folder: Path, icegate: Run) -> None:
    ran = icegate("diff", ORDERS, "pr_12.curated_orders", "--key", "total")
    assert ran.code == 0, ran.err
    twice = rows("AA", [None, "x"], [1, 2])
    open_catalog(lake_of(folder)).create_table("pr_12.twice", twice.schema).append(twice)
    ran = icegate("diff", "pr_12.curated_orders", "pr_12.twice", "--key", "order_id")
    open_catalog(lake_of(folder)).drop_table("pr_12.twice")
    assert ran.code == 1
    assert "keys that more than one row has in snapshot" in ran.err
    assert "add the other columns of the key" in ran.err


def test_releases_and_builds_are_compared_by_rows_where_asked(tmp_path: Path) -> None:
    folder = make_project(tmp_path / "a b")
    two_releases(lake_of(folder))
    (one,) = run_icegate(folder, "diff", "1", "main", "s.a", "--key", "id", "--json").json["tables"]
    assert one["examples"]["added"] == [{"id": 2, "amount": "2"}]
    found = run_icegate(folder, "diff", "2", "cccccccc", "--rows", "--key", "id", "--json").json
    assert [(t["table"], t["added"], t["compared"]) for t in found["tables"]] == [
        ("s.a", 2, "changed files")
    ]
    assert run_icegate(folder, "diff", "release_1", "release_2", "s", "--key", "id").code == 0
    change(lake_of(folder), "s.a", lambda old: {**old, "snapshots": old["snapshots"][-1:]})
    ran = run_icegate(folder, "diff", "1", "main", "s.a", "--key", "id")
    assert ran.code == 1
    assert "has expired, or the table was replaced" in ran.err

"""What is told of tables that PyIceberg wrote, without Spark."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from released import FIRST, SECOND, THIRD, add, end, make, report, request, two_releases

from icegate.catalog import open_catalog
from icegate.errors import ConfigError
from icegate.gate.publish import finish
from icegate.gate.releases import publish, reject
from icegate.gate.report import Node, Report
from icegate.gate.rollback import rollback
from icegate.settings import Lake
from icegate.trust.answers import Answer
from icegate.trust.facts import Facts, read_facts
from trust import artifacts

NOW = datetime.now(timezone.utc)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(home=tmp_path / "home", warehouse=tmp_path / "home" / "warehouse", ansi=True)


def look(lake: Lake, folder: Path, after: timedelta = timedelta(minutes=1)) -> Facts:
    return read_facts(lake, folder, "dev", datetime.now(timezone.utc) + after)


def the(facts: Facts, title: str) -> Answer:
    return next(a for a in (*facts.dashboards, *facts.read) if a.title == title)


def two_tables(folder: Path, **more: Any) -> None:
    """Describe `s.a` and `s.b` of ``released``: each with one test, one made of the other."""
    artifacts.manifest(
        folder,
        artifacts.model("s.a", "id", "amount"),
        artifacts.model("s.b", "id", "amount", depends_on={"nodes": ["model.shop.a"]}),
        artifacts.check("s.a", "not_null_a"),
        artifacts.check("s.b", "not_null_b"),
        **more,
    )


def test_before_dbt_ever_ran(lake: Lake, tmp_path: Path) -> None:
    facts = look(lake, tmp_path)
    assert facts.is_empty and "dbt has not run yet" in facts.notices[0]


def test_parsed_but_never_built(lake: Lake, tmp_path: Path) -> None:
    two_tables(tmp_path)
    told = the(look(lake, tmp_path), "A")
    assert (told.said, told.why) == ("No", "It hasn’t been built yet.")


def test_held_back_then_rejected(lake: Lake, tmp_path: Path) -> None:
    two_tables(tmp_path)
    two_releases(lake)
    held = the(look(lake, tmp_path), "A")
    assert held.said == "Yes, but old" and "you still see the figures of today" in held.why
    assert held.next.startswith("icegate sql")
    assert the(look(lake, tmp_path), "B").said == "Yes"
    reject(lake, THIRD, "dev", "wrong file")
    assert the(look(lake, tmp_path), "A").said == "Yes"


def test_the_day_since_when_stays_while_it_is_held_back(lake: Lake, tmp_path: Path) -> None:
    two_tables(tmp_path)
    two_releases(lake)
    first = the(look(lake, tmp_path), "A").since
    add(lake, "s.a", 5, build="dddddddd")
    end(lake, "dddddddd", a="fail")
    assert the(look(lake, tmp_path), "A").since == first


def test_a_good_build_that_changes_nothing_ends_it(lake: Lake, tmp_path: Path) -> None:
    """The ledger has nothing of such a build: dbt's own results tell."""
    two_tables(tmp_path)
    two_releases(lake)
    artifacts.results(tmp_path, at="2026-01-01T00:00:00Z", a="pass")  # from before
    assert the(look(lake, tmp_path), "A").said == "Yes, but old"
    artifacts.results(tmp_path, at=datetime.now(timezone.utc).isoformat(), a="pass")
    assert the(look(lake, tmp_path), "A").said == "Yes"


def test_a_person_publishes_it_in_spite_of_a_test(lake: Lake, tmp_path: Path) -> None:
    two_tables(tmp_path)
    two_releases(lake)
    publish(lake, THIRD, "dev", {}, ["not_null_a"], "the day was a holiday")
    told = the(look(lake, tmp_path), "A")
    assert told.said == "Yes, but with known faults"
    assert "published it in spite of “Every row has a value for amount” (“the day" in told.why
    add(lake, "s.a", 9, build="dddddddd")
    end(lake, "dddddddd", a="pass")
    assert the(look(lake, tmp_path), "A").said == "Yes"


def test_after_a_rollback_it_is_old_until_the_next_release(lake: Lake, tmp_path: Path) -> None:
    two_tables(tmp_path)
    two_releases(lake)
    rollback(lake, 1, ["s.b"], "dev", dry_run=False)
    told = the(look(lake, tmp_path), "B")
    assert told.said == "Yes, but old" and "went back to release 1" in told.why
    add(lake, "s.b", 9, build="dddddddd")
    end(lake, "dddddddd", b="pass")
    assert the(look(lake, tmp_path), "B").said == "Yes"


def test_a_test_that_could_not_run(lake: Lake, tmp_path: Path) -> None:
    two_tables(tmp_path)
    make(lake, "s.a")
    add(lake, "s.a", 0)
    add(lake, "s.a", 1, build=FIRST)
    end(lake, FIRST, a="error")
    told = the(look(lake, tmp_path), "A")
    assert told.said == "Yes, but old" and told.why.startswith("A check of “A” couldn’t be run;")


def test_what_dbt_skips_is_old_for_the_reason_above_it(lake: Lake, tmp_path: Path) -> None:
    two_tables(tmp_path)
    make(lake, "s.a", "s.b")
    add(lake, "s.a", 0)
    add(lake, "s.b", 0)
    add(lake, "s.a", 1, build=FIRST)
    found = report({"s.a": "fail"})
    below = Node("model.shop.b", "b", "skipped", "s.b", ("model.shop.a",))
    finish(lake, Report({**found.nodes, below.id: below}, found.tests), request(FIRST))
    told = the(look(lake, tmp_path), "B")
    assert told.said == "Yes, but old" and told.why.startswith("1 a has no amount;")


def test_a_test_that_was_not_run_has_the_reason_above_what_it_reads(
    lake: Lake, tmp_path: Path
) -> None:
    """`b` was built, and its test reads `c`, which was skipped since `a` failed."""
    two_tables(tmp_path)
    make(lake, "s.a", "s.b")
    for name in ("s.a", "s.b"):
        add(lake, name, 0)
        add(lake, name, 1, build=FIRST)
    found = report({"s.a": "fail", "s.b": "skipped"})
    id = "test.model.shop.b"
    tests = {**found.tests, id: replace(found.tests[id], nodes=("model.shop.b", "model.shop.c"))}
    between = Node("model.shop.c", "c", "skipped", "s.c", ("model.shop.a",))
    nodes = {**found.nodes, between.id: between}
    finish(lake, Report(nodes, tests), request(FIRST))
    told = the(look(lake, tmp_path), "B")
    assert told.said == "Yes, but old" and told.why.startswith("1 a has no amount;")


def test_failing_rows_are_whole_and_masked(lake: Lake, tmp_path: Path) -> None:
    """Those on the branch of the build, found by the value that the test returns."""
    personal = {"id": {"name": "id"}, "amount": {"name": "amount", "meta": {"pii": "text"}}}
    three = "select amount as from_field from s.a where amount in ('3', '4')"
    known = artifacts.check("s.a", "not_null_a", "relationships", compiled_code=three)
    artifacts.manifest(tmp_path, {**artifacts.model("s.a"), "columns": personal}, known)
    two_releases(lake)
    (check,) = look(lake, tmp_path).tables[0].tests
    assert check.result == "failed"
    assert check.sample.columns == ("amount", "id")
    assert sorted(check.sample.rows) == [("•••", 3), ("•••", 4)]


def test_values_of_a_query_are_masked_where_it_reads_personal_data(
    lake: Lake, tmp_path: Path
) -> None:
    personal = {"amount": {"name": "amount", "meta": {"pii": "text"}}}
    grouped = "select amount as value, count(*) as n from s.a group by amount having count(*) = 1"
    own = artifacts.check("s.a", "not_null_a", "mine", compiled_code=grouped)
    artifacts.manifest(tmp_path, {**artifacts.model("s.a"), "columns": personal}, own)
    two_releases(lake)
    sample = look(lake, tmp_path).tables[0].tests[0].sample
    assert set(sample.rows) == {("•••", 1)}


def test_rows_that_only_spark_can_read_are_said_to_be(lake: Lake, tmp_path: Path) -> None:
    odd = artifacts.check(
        "s.a", "not_null_a", "mine", compiled_code="select soundex(amount) from s.a"
    )
    artifacts.manifest(tmp_path, artifacts.model("s.a", "id"), odd)
    two_releases(lake)
    assert look(lake, tmp_path).tables[0].tests[0].sample.why_none == "only Spark can read them"


def test_not_enough_history_is_no_pass(lake: Lake, tmp_path: Path) -> None:
    early = "-- not enough history: It's too early to say.\nselect '' as kind where false"
    odd = "-- unusual: 9 rows came on Monday.\nselect 'volume' as kind"
    artifacts.manifest(
        tmp_path,
        artifacts.model("s.a"),
        artifacts.model("s.b"),
        artifacts.check("s.a", "a", "volume_anomaly", compiled_code=early),
        artifacts.check("s.b", "b", "volume_anomaly", compiled_code=odd),
    )
    make(lake, "s.a", "s.b")
    artifacts.results(tmp_path, a="pass", b="fail")
    a, b = (table.tests[0] for table in look(lake, tmp_path).tables)
    assert (a.result, a.fault) == ("not enough history", "It's too early to say.")
    assert (b.result, b.fault, b.sample) == ("failed", "9 rows came on Monday", None)


def test_elementary_without_a_week_of_days_is_no_pass(lake: Lake, tmp_path: Path) -> None:
    name = "elementary_volume_anomalies_a"
    artifacts.manifest(
        tmp_path, artifacts.model("s.a"), artifacts.check("s.a", name, "volume_anomalies")
    )
    make(lake, "s.a")
    artifacts.results(tmp_path, a="pass")
    (young,) = look(lake, tmp_path).tables[0].tests
    assert young.result == "not enough history" and "a week of days" in young.fault


def test_never_released(lake: Lake, tmp_path: Path) -> None:
    two_tables(tmp_path)
    make(lake, "s.b")
    told = the(look(lake, tmp_path), "A")
    assert told.said == "No"


def test_what_a_test_run_finds_on_main(lake: Lake, tmp_path: Path) -> None:
    """Without the gate, and after `dbt test`: readers have the rows that fail."""
    two_tables(tmp_path)
    make(lake, "s.a", "s.b", properties={"write.wap.enabled": "false"})
    add(lake, "s.a", 1, 2)
    add(lake, "s.b", 1)
    artifacts.results(tmp_path, a="fail", b="pass")
    facts = look(lake, tmp_path)
    assert (the(facts, "A").said, the(facts, "A").why) == ("No", "3 as have no amount.")
    assert the(facts, "B").said == "Yes"
    assert facts.tables[0].tests[0].result == "failed"


def test_what_a_build_through_the_gate_finds_is_not_on_main(lake: Lake, tmp_path: Path) -> None:
    two_tables(tmp_path)
    two_releases(lake)
    artifacts.results(tmp_path, run=request(THIRD).invocation_id, a="fail", b="pass")
    assert the(look(lake, tmp_path), "A").said == "Yes, but old"


def test_nothing_checks_it(lake: Lake, tmp_path: Path) -> None:
    artifacts.manifest(tmp_path, artifacts.model("s.a"))
    make(lake, "s.a")
    add(lake, "s.a", 1)
    end(lake, FIRST, a="pass")
    told = the(look(lake, tmp_path), "A")
    assert (told.said, told.why) == ("Nobody knows", "Nothing checks it.")


def test_a_promise_that_is_broken(lake: Lake, tmp_path: Path) -> None:
    promised = artifacts.model("s.a", config={"meta": {"fresh_within_hours": 26}})
    artifacts.manifest(tmp_path, promised, artifacts.check("s.a", "not_null_a"))
    make(lake, "s.a")
    add(lake, "s.a", 0)
    add(lake, "s.a", 1, build=FIRST)
    end(lake, FIRST, a="pass")
    assert the(look(lake, tmp_path), "A").said == "Yes"
    later = the(look(lake, tmp_path, timedelta(days=3)), "A")
    assert later.said == "Yes, but old"
    assert "promised to be no older than 26 hours" in later.why


def test_a_dashboard_is_as_good_as_its_worst_table(lake: Lake, tmp_path: Path) -> None:
    exposure = {
        **{"unique_id": "exposure.shop.e", "name": "e", "label": "Sales", "type": "dashboard"},
        **{"owner": {"name": "Ann"}, "depends_on": {"nodes": ["model.shop.a", "model.shop.b"]}},
    }
    two_tables(tmp_path, exposures={"exposure.shop.e": exposure})
    two_releases(lake)
    facts = look(lake, tmp_path)
    assert the(facts, "Sales").answer == "old"
    assert the(facts, "A").dashboards == ("Sales",)


def test_a_file_that_is_gone(lake: Lake, tmp_path: Path) -> None:
    two_tables(tmp_path)
    two_releases(lake)
    location = open_catalog(lake).load_table("s.a").metadata_location
    Path(location.removeprefix("file://")).unlink()
    told = the(look(lake, tmp_path), "A")
    assert told.said == "No" and "It can’t be read" in told.why


def test_columns_and_bytes_come_from_metadata(lake: Lake, tmp_path: Path) -> None:
    columns = {
        "id": {"name": "id", "description": "The key."},
        "email": {"name": "email", "config": {"meta": {"pii": "email"}}},
        "born": {"name": "born", "config": {"meta": {"pii": True}}},
    }
    artifacts.manifest(tmp_path, {**artifacts.model("s.people"), "columns": columns})
    lake.home.mkdir(parents=True)
    catalog = open_catalog(lake)
    catalog.create_namespace("s")
    rows = pa.table({"id": [1, 2, 3, 4], "email": ["a", None, "c", "d"], "born": [1, 2, 3, 4]})
    table = catalog.create_table("s.people", rows.schema)
    table.append(rows)
    table.overwrite(rows.slice(0, 2))
    (people,) = look(lake, tmp_path).tables
    id, email, born = people.look.columns
    assert (id.low, id.high, id.null_rate, id.description) == (1, 2, 0.0, "The key.")
    assert (email.null_rate, email.low, email.personal) == (0.5, None, "email")
    assert (born.low, born.high) == (None, None)  # nobody's birthday in a range
    sizes = [task.file.file_size_in_bytes for task in table.scan().plan_files()]
    assert people.look.bytes == sum(sizes)
    first = table.metadata.snapshots[0].summary.additional_properties
    assert people.look.bytes_of_history == int(first["added-files-size"])
    assert [rows for _, rows in people.look.over_time][-1] == 2


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"metadata": {"dbt_schema_version": "https://x/manifest/v9.json"}}', "manifest/v12"),
        ('{"metadata"', "it isn't whole"),
        ("[]", "it isn't whole"),
    ],
)
def test_artifacts_of_another_version(lake: Lake, tmp_path: Path, text: str, why: str) -> None:
    (tmp_path / "target").mkdir()
    (tmp_path / "target" / "manifest.json").write_text(text)
    with pytest.raises(ConfigError) as error:
        look(lake, tmp_path)
    assert why in error.value.why and "dbt parse" in error.value.fix


def test_json_has_the_same_content(lake: Lake, tmp_path: Path) -> None:
    from icegate.cli.output import plain

    two_tables(tmp_path)
    two_releases(lake)
    facts = look(lake, tmp_path)
    told = json.loads(json.dumps(plain(asdict(facts))))
    assert told["read"][0]["why"] == facts.read[0].why
    assert {table["look"]["name"] for table in told["tables"]} == {"s.a", "s.b"}


def test_a_verdict_that_changed_without_the_data(lake: Lake, tmp_path: Path) -> None:
    """Only where the heads of all that a test reads are known, and the same."""
    from icegate.trust.engineers import _changes
    from icegate.trust.standing import Ran

    def ran(build: str, status: str, *data: int | None) -> Ran:
        return Ran(NOW, build, status, 0, data)

    one = [ran(FIRST, "pass", 7), ran(SECOND, "fail", 7), ran(THIRD, "fail", 8)]
    assert [*_changes(one)] == [(one[0], one[1])]
    assert not [*_changes([ran(FIRST, "pass", 7), ran(SECOND, "fail", 8)])]
    assert not [*_changes([ran(FIRST, "pass", None), ran(SECOND, "fail", None)])]
    assert not [*_changes([ran(FIRST, "pass", 7), ran(SECOND, "warn", 7)])]

"""TPC-H's queries answer as DuckDB does, and what the benchmark refuses to compare or to use."""

from __future__ import annotations

import json
import math
import re
import shutil
import sys
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import duckdb
import jinja2
import pytest
import sqlglot
import yaml

from icegate.session import start_session
from icegate.settings import Lake

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"
sys.path.append(str(BENCHMARKS))  # last, since its `gate` or `history` would hide other modules

import _bench  # noqa: E402
import _tpch_data  # noqa: E402
import _tpch_events as events  # noqa: E402
import tpch  # noqa: E402
from _tpch_prices import Prices, read_prices  # noqa: E402

MODELS = BENCHMARKS / "tpch_project" / "models"
QUERIES = sorted((MODELS / "queries").glob("*.sql"))
TABLES = sorted(path.stem for part in ("load", "refresh") for path in (MODELS / part).glob("*.sql"))
SCALE = "0.01"


@pytest.fixture(scope="module")
def files() -> Path:
    return _tpch_data.files_of(SCALE)


@pytest.fixture(scope="module")
def duck(files: Path) -> duckdb.DuckDBPyConnection:
    found = duckdb.connect()
    for name in TABLES:
        found.execute(f"create view {name} as from '{files / name}.parquet'")
    return found


@pytest.fixture(scope="module")
def spark(lake: Lake, files: Path) -> Any:
    session = start_session(lake)
    for name in TABLES:
        rows = session.read.parquet(str(files / f"{name}.parquet"))
        rows.createOrReplaceTempView(name)
    yield session
    for name in TABLES:
        session.catalog.dropTempView(name)


def rendered(path: Path, files: Path, *, is_incremental: bool = False) -> str:
    """Return a model's SQL as dbt renders it, with tables that have no schema."""
    known = {"scale": float(SCALE), "files": str(files)}
    return jinja2.Template(path.read_text()).render(
        ref=lambda name: name,
        var=known.__getitem__,
        this=path.stem,
        config=lambda **_: "",
        is_incremental=lambda: is_incremental,
    )


def answers(sql: str, duck: duckdb.DuckDBPyConnection) -> list[tuple[Any, ...]]:
    (translated,) = sqlglot.transpile(sql, read="spark", write="duckdb")
    return duck.execute(translated).fetchall()


def as_set(rows: list[Any]) -> list[tuple[Any, ...]]:
    """Return rows in one order, whose decimals are floats: both engines round those otherwise."""
    plain = [tuple(float(v) if isinstance(v, Decimal) else v for v in row) for row in rows]
    return sorted(plain, key=lambda row: tuple(str(v) for v in row if not isinstance(v, float)))


def is_same(left: Any, right: Any) -> bool:
    if isinstance(left, float) and isinstance(right, float):
        # Spark keeps six digits of a quotient of decimals.
        return math.isclose(left, right, rel_tol=1e-6, abs_tol=1e-6)
    return bool(left == right)


def assert_same(left: list[Any], right: list[Any]) -> None:
    assert len(left) == len(right)
    for mine, other in zip(as_set(left), as_set(right), strict=True):
        assert all(map(is_same, mine, other)), (mine, other)


def test_all_queries_and_tables_are_there() -> None:
    assert [path.stem for path in QUERIES] == [f"q{number:02d}" for number in range(1, 23)]
    described = yaml.safe_load((MODELS / "queries" / "_queries.yml").read_text())["models"]
    assert [entry["name"] for entry in described] == [path.stem for path in QUERIES]
    assert len(TABLES) == 8


@pytest.mark.long
@pytest.mark.parametrize("path", QUERIES, ids=lambda path: path.stem)
def test_query_answers_as_duckdb_does(
    path: Path, spark: Any, duck: duckdb.DuckDBPyConnection, files: Path
) -> None:
    sql = rendered(path, files)
    assert_same([tuple(row) for row in spark.sql(sql).collect()], answers(sql, duck))


@pytest.mark.long
@pytest.mark.parametrize("table", ["orders", "lineitem"])
def test_refresh_inserts_into_gaps_and_deletes_as_many(
    table: str, duck: duckdb.DuckDBPyConnection, files: Path
) -> None:
    """The lowest partition comes out with as many rows, the first 15 orders under other keys."""
    sql = rendered(MODELS / "refresh" / f"{table}.sql", files, is_incremental=True)
    sql = re.sub(r"parquet\.`([^`]+)`", lambda found: Path(found[1]).stem, sql)
    key = f"{table[0]}_orderkey"
    first = f"select {key} from {table} where {key} < 6000"
    before = sorted(key for (key,) in duck.execute(first).fetchall())
    after = sorted(row[0] for row in answers(sql, duck))
    old = set(range(1, 8)) | set(range(32, 40))
    assert {key for key in before if key <= 39} == old
    assert after == sorted(key + 8 if key in old else key for key in before)
    assert not set(after) - set(before) & set(before)


def test_settings_that_differ_end_the_program(capsys: pytest.CaptureFixture[str]) -> None:
    ours = events.Events(conf={"spark.sql.shuffle.partitions": {"8"}})
    peers = events.Events(conf={"spark.sql.shuffle.partitions": {"200"}, "spark.x": {"1"}})
    with pytest.raises(SystemExit) as ended:
        events.refuse_different(ours, peers)
    assert str(ended.value) == (
        "error: cannot compare: Spark's settings of the two sides differ\n"
        "  why: spark.sql.shuffle.partitions: ours 8, dbt-spark 200\n"
        "       spark.x: ours (not set), dbt-spark 1\n"
        "  fix: set them alike on both sides, or declare them with a reason in "
        "benchmarks/_tpch_events.py"
    )


def test_declared_settings_may_differ_and_each_has_a_reason() -> None:
    events.refuse_different(
        events.Events(conf={key: {"a"} for key in events.DECLARED} | {"mode": {"dynamic"}}),
        events.Events(conf={"mode": {"DYNAMIC"}}),
    )
    assert all(events.DECLARED.values())


def test_an_event_log_tells_settings_and_scanned_files(tmp_path: Path) -> None:
    log, project = tmp_path / "events", tmp_path / "ours"
    log.mkdir()
    spark = "org.apache.spark.sql.execution.ui.SparkListener"
    size = {"metricType": f"v2Custom_x.{events.FILE_SIZES[0]}", "accumulatorId": 5}
    plan = {"children": [{"metrics": [size, {"metricType": "sum", "accumulatorId": 6}]}]}
    lines: list[dict[str, Any]] = [
        {
            "Event": "SparkListenerEnvironmentUpdate",
            "JVM Information": {"Java Version": "21"},
            "Spark Properties": {"spark.place": f"{project}/lake", "spark.a": "1"},
        },
        {"Event": f"{spark}SQLExecutionStart", "modifiedConfigs": {"spark.a": "2"}},
        {"Event": f"{spark}DriverAccumUpdates", "accumUpdates": [[5, 14], [6, 100]]},
        {"Event": f"{spark}SQLAdaptiveExecutionUpdate", "sparkPlanInfo": plan},
        {"Event": f"{spark}SQLAdaptiveExecutionUpdate", "sparkPlanInfo": plan},
        {"Event": "SparkListenerTaskEnd", "accumUpdates": [[5, 1]]},
    ]
    (log / "local-1").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    found = events.take_events(log, project)
    assert found.scanned == 14
    place = {"<project>/lake"}
    assert found.conf == {"java.version": {"21"}, "spark.place": place, "spark.a": {"1", "2"}}
    assert not any(log.iterdir())


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("currency: x\ncpu_hour: 1\ngb_read: 1\ncpu_minute: 1\n", "`cpu_minute` is no price"),
        ("currency: x\ncpu_hour: -1\ngb_read: 1\n", "`cpu_hour` is -1, and a price"),
        ("currency: x\ncpu_hour: .nan\ngb_read: 1\n", "`cpu_hour` is nan, and a price"),
        ("currency: x\ncpu_hour: cheap\ngb_read: 1\n", "`cpu_hour` is 'cheap'"),
        ("currency: x\ncpu_hour: true\ngb_read: 1\n", "`cpu_hour` is True"),
        ("currency: x\ncpu_hour: 1\n", "`gb_read` is missing"),
        ("- 1\n", "it isn't a list"),
        ("{", "it can't be read"),
    ],
)
def test_a_wrong_price_ends_the_program(tmp_path: Path, text: str, why: str) -> None:
    path = tmp_path / "prices.yml"
    path.write_text(text)
    with pytest.raises(SystemExit, match="error: cannot use the prices of .*prices.yml") as ended:
        read_prices(path)
    assert why in str(ended.value)
    assert "fix: give it currency, cpu_hour, gb_read" in str(ended.value)


def test_prices_make_a_cost(tmp_path: Path) -> None:
    assert Prices("units", cpu_hour=2, gb_read=0.5).of(1800, 4 * 10**9) == 3
    assert read_prices(tpch.PRICES).currency == "units"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for module in (_bench, _tpch_data):
        monkeypatch.setattr(module, "HOME", tmp_path / "bench")
    return tmp_path / "bench"


def refused(scale: str = SCALE) -> str:
    with pytest.raises(SystemExit) as ended:
        _tpch_data.files_of(scale)
    return str(ended.value)


@pytest.mark.parametrize("scale", ["3", "-1", "much", ""])
def test_an_unknown_scale_ends_the_program(scale: str, home: Path) -> None:
    said = refused(scale)
    assert said.startswith(f"error: cannot make TPC-H at scale factor {scale}\n")
    assert "--scale takes one of 0.01, 0.1, 1, 10" in said


def test_too_little_disk_ends_the_program(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    free = SimpleNamespace(free=3 * 10**9)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: free)
    said = refused("10")
    assert "error: too little disk for TPC-H at scale factor 10\n" in said
    assert "up to 21.0 GB, and 3.0 GB are free" in said


def test_no_generator_ends_the_program(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(peer: str) -> Path:
        raise _tpch_data.subprocess.CalledProcessError(2, "uv")

    monkeypatch.setattr(_tpch_data, "peer_python", fails)
    assert refused().startswith("error: no tpchgen-cli\n")


def test_a_generator_that_fails_leaves_no_files(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "bin" / "tpchgen-cli"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho disk full >&2\nexit 3\n")
    program.chmod(0o755)
    monkeypatch.setattr(_tpch_data, "peer_python", lambda _: program.parent / "python")
    assert "why: tpchgen-cli said: disk full\n" in refused()
    assert not (home / "tpch" / "files" / SCALE).exists()


def test_tables_with_other_rows_end_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sides = [_bench.Side(name, Path("python"), tmp_path / name) for name in ("ours", "peer")]
    found = {"ours": {"q01": 4, "q02": 1}, "peer": {"q01": 4, "q02": 2, "q03": 5}}
    monkeypatch.setattr(_tpch_data, "_rows", lambda side: found[side.name])
    with pytest.raises(SystemExit) as ended:
        _tpch_data.refuse_other_rows(*sides)
    said = str(ended.value)
    assert "why: q02: 1 and 2 rows\n       q03: None and 5 rows\n" in said
    found["ours"] = found["peer"]
    _tpch_data.refuse_other_rows(*sides)


def test_a_querys_seconds_are_the_models_own(tmp_path: Path) -> None:
    rows = [("model.tpch.q01", 1.5), ("test.tpch.not_null_q01_l_returnflag.0a", 9.0)]
    results = [{"unique_id": id, "execution_time": seconds} for id, seconds in rows]
    (tmp_path / "target").mkdir()
    (tmp_path / "target" / "run_results.json").write_text(json.dumps({"results": results}))
    assert tpch.query_seconds(_bench.Side("ours", Path("python"), tmp_path)) == {"q01": 1.5}

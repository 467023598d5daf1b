"""How Spark is started: Java's options, and local files without a process for each."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import make_home

from icegate.class_archive import COLLECTOR, java_options
from icegate.settings import Lake
from icegate.spark_conf import CLASS_PATH, start_conf

G1 = "-XX:+UseG1GC"
EXTRA = "spark.driver.extraJavaOptions"


def run_in_new_spark(lake: Lake, code: str, **variables: str) -> str:
    """Run Python on a Spark of its own, as ``spark``, and return what it printed."""
    program = (
        "import sys\nfrom icegate.session import start_session\n"
        "from icegate.settings import Lake\n"
        f"spark = start_session(Lake.model_validate_json(sys.argv[1]))\n{code}\n"
    )
    said = subprocess.run(
        [sys.executable, "-c", program, lake.model_dump_json()],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert said.returncode == 0, said.stderr
    return said.stdout


@pytest.fixture
def own_lake(tmp_path: Path) -> Lake:
    """A lake for a Spark that the other tests don't share."""
    home = make_home(tmp_path / "home")
    return Lake(home=home, warehouse=home / "warehouse", memory="1g")


def with_conf(lake: Lake, key: str, value: str) -> Lake:
    return lake.model_copy(update={"spark_conf": {key: value}})


def test_a_class_path_of_the_users_own_comes_after_the_jars(lake: Lake) -> None:
    jars = start_conf(lake)[CLASS_PATH]
    assert start_conf(with_conf(lake, CLASS_PATH, "/own.jar"))[CLASS_PATH] == f"{jars}:/own.jar"


def test_a_collector_of_the_users_own(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    assert COLLECTOR in java_options(lake)
    assert COLLECTOR not in java_options(with_conf(lake, EXTRA, G1))
    monkeypatch.setenv("JDK_JAVA_OPTIONS", f"-ea {G1}")
    assert COLLECTOR not in java_options(lake)


@pytest.mark.slow
@pytest.mark.parametrize("where", [EXTRA, "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS"])
def test_spark_starts_with_a_collector_of_the_users_own(own_lake: Lake, where: str) -> None:
    code = (
        "beans = spark._jvm.java.lang.management.ManagementFactory.getGarbageCollectorMXBeans()\n"
        "print([bean.getName() for bean in beans])"
    )
    lake, variables = own_lake, {where: G1}
    if where == EXTRA:
        lake, variables = with_conf(own_lake, EXTRA, G1), {}
    assert "G1 Young Generation" in run_in_new_spark(lake, code, **variables)


@pytest.mark.slow
def test_a_file_is_written_without_a_process(own_lake: Lake, tmp_path: Path) -> None:
    """Hadoop's own way is a `chmod` for each file; readers of other users must get in still."""
    chmod = tmp_path / "bin" / "chmod"
    chmod.parent.mkdir()
    chmod.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/called\n')
    chmod.chmod(0o755)
    code = (
        "spark.sql('create schema files')\n"
        "spark.sql('create table files.one using iceberg as select 1 as id')"
    )
    run_in_new_spark(own_lake, code, PATH=f"{chmod.parent}:{os.environ['PATH']}")
    assert not (tmp_path / "called").exists()
    data = next((own_lake.warehouse / "files" / "one" / "data").glob("*.parquet"))
    assert stat.S_IMODE(data.stat().st_mode) == 0o644
    assert (data.parent / f".{data.name}.crc").is_file()

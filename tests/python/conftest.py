"""One Spark serves all tests; each test has a dbt project and schemas of its own."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
import yaml
from dbt_common.behavior_flags import BehaviorFlagRendered
from dbt_common.tests import enable_test_caching

from icegate import class_archive
from icegate.session import start_session, stop_session
from icegate.settings import CATALOG_SECRETS, Lake

ROOT = Path(__file__).parents[2]

# dbt's own tests do so too: a macro's text is parsed once in a process, not once in each run, which
# took more than half of the time.
enable_test_caching()
# Who defines a flag dbt looks for on the stack, which pytest makes deep: a tenth of a small run.
BehaviorFlagRendered._default_source = staticmethod(lambda: "dbt.adapters.icegate")
# What a shell's `&` starts ignores Ctrl-C, and so would all that tests start and stop.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
# Tests run each statement once or twice: what Java's slow compiler makes comes too late for them.
# Its code cache is 48 MB by default, which some minutes of tests fill: then Spark stops.
class_archive.PATIENT_COMPILER = ("-XX:TieredStopAtLevel=1", "-XX:ReservedCodeCacheSize=240m")


def make_home(folder: Path) -> Path:
    """Make a project home in ``folder`` that has the checkout's jars and nothing else."""
    folder.mkdir(parents=True, exist_ok=True)
    resolved = ROOT / ".icegate" / "ivy"
    if resolved.is_dir():
        (folder / "ivy").symlink_to(resolved)
    return folder


def pytest_addoption(parser: pytest.Parser) -> None:
    said = "where the catalogs of lakes are that tests make; `make test-targets` takes each"
    parser.addoption(
        "--catalog", default="sqlite", choices=("sqlite", "postgres", "rest"), help=said
    )


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Let what takes longest and changes least come last: a slow machine leaves that out.

    Tests on Spark are slow, whoever wrote so beside them.
    """
    items.sort(key=lambda item: item.path.parent.name == "deploy")
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.slow)
    if config.getoption("--catalog") == "rest":
        left_out = pytest.mark.skip("the server of a REST catalog writes its files itself")
        for item in items:
            if item.get_closest_marker("own_files"):
                item.add_marker(left_out)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Leave out what would begin after ICEGATE_TESTS_END, in seconds since 1970, and say so."""
    end = os.environ.get("ICEGATE_TESTS_END")
    if end and time.time() > float(end):
        pytest.skip("left out: the time that this run has is over")


@pytest.fixture(scope="session")
def new_catalog(
    request: pytest.FixtureRequest,
) -> Iterator[Callable[[], dict[str, Any]]]:
    """What makes a catalog, and returns what a ``Lake`` has to know of it."""
    kind = request.config.getoption("--catalog")
    if kind == "sqlite":
        yield dict
        return
    from targets import postgres_server, rest_server

    with (rest_server if kind == "rest" else postgres_server).running() as server:
        yield lambda: server.catalog(f"lake_{uuid.uuid4().hex[:10]}")


@pytest.fixture(scope="session")
def lake(
    tmp_path_factory: pytest.TempPathFactory, new_catalog: Callable[[], dict[str, Any]]
) -> Lake:
    return _lake(make_home(tmp_path_factory.mktemp("tests") / "a lake"), new_catalog())


def catalog_keys(lake: Lake) -> dict[str, Any]:
    """Return the keys of a target that say where a lake's catalog is, where it isn't its own."""
    if lake.catalog_uri is None:
        return {}
    keys = {"catalog_type": lake.catalog_type, "catalog_uri": lake.catalog_uri}
    keys |= {"catalog_ref": lake.catalog_ref, "catalog_options": lake.catalog_options}
    secrets = {name: getattr(lake, name) for name in CATALOG_SECRETS}
    keys |= {name: secret.get_secret_value() for name, secret in secrets.items() if secret}
    return {name: value for name, value in keys.items() if value}


def _lake(home: Path, catalog: dict[str, Any]) -> Lake:
    conf = {"spark.sql.session.timeZone": "UTC"}
    return Lake(home=home, warehouse=home / "warehouse", ansi=True, spark_conf=conf, **catalog)


@pytest.fixture(scope="session")
def spark(lake: Lake) -> Any:
    yield start_session(lake)
    stop_session()


class DbtRun:
    """What a dbt command did: ``ok``, a status and a message for each node, all in one text.

    ``notes`` is what the adapter told beside its nodes, ``told`` what it told while they ran.
    """

    def __init__(self, outcome: Any, notes: str = "", told: str = "") -> None:
        results = getattr(outcome.result, "results", None) or []
        self.notes, self.told = notes, told
        self.ok = outcome.success
        results = [result for result in results if hasattr(result, "node")]  # no run-operation's
        self.status = {result.node.name: str(result.status) for result in results}
        self.message = {result.node.name: result.message or "" for result in results}
        self.text = "\n".join([*self.message.values(), str(outcome.exception or "")])


class DbtProject:
    """A dbt project in a folder with a space in its name, on the tests' Spark."""

    def __init__(
        self, folder: Path, lake: Lake, spark: Any, adapter: str = "icegate", **keys: Any
    ) -> None:
        self.folder, self.lake, self.spark = folder, lake, spark
        self.schema = f"t_{uuid.uuid4().hex[:10]}"
        target = {"type": adapter, "method": "session", "schema": self.schema, "threads": 4}
        if adapter == "icegate":
            target.update(home=str(lake.home), ansi=True, spark_conf=lake.spark_conf)
            target.update(catalog_keys(lake))
        else:
            target.update(host="none")
        target.update(keys)
        self.write_yaml("profiles.yml", {"t": {"target": "t", "outputs": {"t": target}}})
        self.configure()

    def configure(self, **extra: Any) -> None:
        project = {"name": "t", "version": "1.0", "profile": "t"}
        flags = {"send_anonymous_usage_stats": False}
        self.write_yaml("dbt_project.yml", {**project, "flags": flags, **extra})

    def write(self, path: str, text: str) -> Path:
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(dedent(text))
        return file

    def write_yaml(self, path: str, content: Any) -> Path:
        return self.write(path, yaml.safe_dump(content, sort_keys=False))

    def dbt(self, *args: str) -> DbtRun:
        from dbt.cli.main import dbtRunner

        where = ["--project-dir", str(self.folder), "--profiles-dir", str(self.folder)]
        logs = ["--log-path", str(self.folder / "logs"), "--quiet"]
        said: dict[str, list[str]] = defaultdict(list)
        runner = dbtRunner(callbacks=[lambda m: said[m.info.name].append(m.info.msg)])
        outcome = runner.invoke([*args, *where, *logs])
        notes = [note for note in said["Note"] if "partial parsing" not in note]  # that is dbt's
        return DbtRun(outcome, "\n".join(notes), "\n".join(said["AdapterEventInfo"]))

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """Run ``query`` with ``{s}`` standing for the project's schema."""
        return [tuple(row) for row in self.spark.sql(query.format(s=self.schema)).collect()]


@pytest.fixture
def project(tmp_path: Path, lake: Lake, spark: Any) -> Any:
    made = DbtProject(tmp_path / "a project", lake, spark)
    yield made
    shutil.rmtree(made.folder, ignore_errors=True)


@pytest.fixture
def lake_copy(tmp_path: Path) -> Path:
    """A project home of its own, with a space in its path."""
    return make_home(tmp_path / "a home")


@pytest.fixture
def own_lake(lake_copy: Path, new_catalog: Callable[[], dict[str, Any]]) -> Lake:
    """A lake whose catalog and warehouse no other test shares."""
    return _lake(lake_copy, new_catalog())


@pytest.fixture
def own_project(tmp_path: Path, own_lake: Lake, spark: Any) -> Any:
    """A project whose catalog and warehouse no other test shares, to be broken at will."""
    return DbtProject(tmp_path / "a project", own_lake, start_session(own_lake))


@pytest.fixture
def make_read_only() -> Iterator[Callable[[Path], None]]:
    """What puts a folder on a disk that nobody can write to, root neither."""
    mounted: list[str] = []

    def mount(folder: Path) -> None:
        bind = ["mount", "--bind", str(folder), str(folder)]
        if os.geteuid() != 0 or subprocess.run(bind, check=False).returncode != 0:
            pytest.skip("a disk can be mounted by root only")
        mounted.append(str(folder))
        subprocess.run(["mount", "-o", "remount,bind,ro", str(folder)], check=True)

    yield mount
    for folder in mounted:
        subprocess.run(["umount", "-l", folder], check=True)

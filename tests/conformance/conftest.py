"""dbt-tests-adapter's own fixtures, on one embedded lake; its Postgres set-up SQL, translated."""

from __future__ import annotations

import inspect
import os
import re
from pathlib import Path
from typing import Any

import pytest
from dbt.tests.fixtures import project as suite_fixtures
from dbt.tests.fixtures.project import *  # noqa: F403
from dbt.tests.fixtures.project import TestProjInfo
from translate import to_spark

from icegate import class_archive

ROOT = Path(__file__).parents[2]
NOT_CLEAN = ROOT / "docs" / "conformance.md"
GATE = os.environ.get("ICEGATE_CONFORMANCE_GATE") == "1"
# As in the project's own tests.
# Its code cache is 48 MB by default, which some minutes of tests fill: then Spark stops.
class_archive.PATIENT_COMPILER = ("-XX:TieredStopAtLevel=1", "-XX:ReservedCodeCacheSize=240m")

# The suite hands these names to `grant`; any will do where a catalog has no users.
for number in (1, 2, 3):
    os.environ.setdefault(f"DBT_TEST_USER_{number}", f"user_{number}")


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project home of its own, with the checkout's jars."""
    folder = tmp_path_factory.mktemp("home")
    (folder / "ivy").symlink_to(ROOT / ".icegate" / "ivy")
    return folder


@pytest.fixture(scope="class")
def dbt_profile_target(home: Path) -> dict[str, Any]:
    return {"type": "icegate", "home": str(home), "threads": 4, "gate": GATE, "audits": GATE}


@pytest.fixture(scope="class")
def profile_user() -> None:
    """No owner: the embedded catalog knows no users."""


@pytest.fixture(scope="class")
def suite_folder(request: pytest.FixtureRequest) -> Path:
    """Where the suite's file with the class lies, and the data that it brings."""
    return Path(inspect.getfile(request.cls.__bases__[-1])).parent


@pytest.fixture(scope="class")
def test_data_dir(suite_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    own = suite_folder / "data"
    return str(own if own.is_dir() else tmp_path_factory.mktemp("conformance") / "data")


class SparkProject(TestProjInfo):
    """The suite's handle of a project, with its Postgres statements in Spark's dialect."""

    def run_sql(self, sql: str, fetch: str | None = None) -> Any:
        found = None
        for statement in to_spark(self, sql):
            found = super().run_sql(statement, fetch)
        return found

    def get_tables_in_schema(self) -> dict[str, str]:
        relation = self.adapter.Relation.create(schema=self.test_schema)
        with self.adapter.connection_named("_test"):
            found = self.adapter.list_relations_without_caching(relation)
        return {item.identifier: str(item.type) for item in found}


@pytest.fixture(scope="class", autouse=True)
def in_sparks_words(request: pytest.FixtureRequest, suite_folder: Path) -> Any:
    """Hand out ``SparkProject``, and respell the files of classes that `overrides` names."""
    replacements = getattr(request.cls, "spelling", {})
    write = suite_fixtures.write_project_files

    def respelled(files: Any) -> Any:
        if isinstance(files, dict):
            return {name: respelled(content) for name, content in files.items()}
        for old, new in replacements.items():
            files = files.replace(old, new)
        return files

    def project(*args: Any, **kwargs: Any) -> SparkProject:
        return SparkProject(*args, **{**kwargs, "test_dir": str(suite_folder)})

    patch = pytest.MonkeyPatch()
    patch.setattr(suite_fixtures, "TestProjInfo", project)
    patch.setattr(
        suite_fixtures,
        "write_project_files",
        lambda root, folder, files: write(root, folder, respelled(files)),
    )
    yield
    patch.undo()


def not_clean() -> dict[str, str]:
    """Read the tests that aren't clean, with their reasons, from the tables of the document."""
    text = NOT_CLEAN.read_text()
    text = text if GATE else text.partition("\n## With the gate on")[0]
    return dict(re.findall(r"^\| `(\w+::\S.*?)` \| (.+) \|$", text, re.MULTILINE))


def pytest_configure(config: pytest.Config) -> None:
    # The suite's own way of writing fixtures, which isn't ours to change.
    config.addinivalue_line("filterwarnings", "ignore::pytest.PytestRemovedIn10Warning")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Expect the listed tests to fail, and all others to be clean: a change of either is told."""
    reasons = not_clean()
    names = {item.nodeid.partition("::")[2] for item in items}
    # A run of one class knows its own tests only.
    whole = len(names) > len(reasons)
    gone = reasons.keys() - names
    assert not (whole and gone), f"docs/conformance.md lists what isn't there: {sorted(gone)}"
    for item in items:
        reason = reasons.get(item.nodeid.partition("::")[2])
        if reason:
            item.add_marker(pytest.mark.xfail(reason=reason, strict=True))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    seen = terminalreporter.stats
    broken = {report.nodeid for report in seen.get("error", []) + seen.get("failed", [])}
    listed = {report.nodeid for report in seen.get("xfailed", [])}
    clean = {report.nodeid for report in seen.get("passed", [])} - broken - listed
    gate = "on" if GATE else "off"
    terminalreporter.write_line(
        f"conformance, gate {gate}: {len(clean)} of {len(clean | broken | listed)} clean from "
        f"set-up to tear-down, {len(listed)} listed in docs/conformance.md, "
        f"{len(broken - listed)} broken"
    )

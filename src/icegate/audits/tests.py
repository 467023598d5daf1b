"""The data tests of the last compiled project, and the verdict on each, without dbt's start."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from icegate.errors import ConfigError, did_you_mean
from icegate.gate.staging import NAMESPACE, final_names, staging_name
from icegate.nodes import read_manifest

# The configs of a test that are part of its query.
_ASKED = ("where", "limit", "fail_calc", "error_if", "warn_if")
ON_SPARK = "scan (spark)"  # how a test is proved when nothing cheaper will do

# How dbt asks a data test's question. One that stores its failing rows asks their table, and by
# then Spark has done the work.
_QUESTION = re.compile(r"\)\s*dbt_internal_test\s*$")
_OF_STORED = re.compile(r"from \(\s*select \*\s+from \S+\s*\)\s*dbt_internal_test\s*$")


def is_question(sql: str) -> bool:
    """Tell whether a query is a data test's, whose answer isn't stored yet."""
    return _QUESTION.search(sql) is not None and not _OF_STORED.search(sql)


def counted(proofs: Iterable[str], between: str) -> str:
    """Return how many proofs there are of each kind, whatever number of files each has read."""
    kinds = Counter(re.sub(r" \(\d.*", "", proof) for proof in proofs)
    most_first = sorted(kinds.items(), key=lambda item: (-item[1], item[0]))
    return between.join(f"{count} by {kind}" for kind, count in most_first)


@dataclass(frozen=True)
class DataTest:
    """A data test as dbt compiled it; ``model`` is `schema.name` of what it's attached to.

    ``written`` tells it from any other test, and from the same one before it was changed.
    """

    __test__ = False  # pytest takes every …Test for its own

    name: str
    model: str
    sql: str  # nothing where dbt hasn't compiled it, as when it was skipped
    severity: str
    written: str = ""

    @property
    def known_as(self) -> tuple[str, ...]:
        """The names by which it can be selected."""
        return self.name, self.model, self.model.rpartition(".")[2]

    def verdict(self, row: Sequence[Any]) -> tuple[str, int]:
        """Return pass, warn or fail, and how many rows fail, of what its query returns."""
        failures, should_warn, should_error = row
        if self.severity == "error" and should_error:
            return "fail", int(failures)
        return "warn" if should_warn else "pass", int(failures)


def read_tests(project: Path, patterns: Sequence[str]) -> list[DataTest]:
    """Return the tests of the last compiled project whose own name or model's name is given.

    A name may be a pattern: `unique_*`, `silver.*`. Raises ``ConfigError``.
    """
    found = all_tests(project)
    for pattern in patterns:
        if not any(_matches(test, pattern) for test in found):
            known = {name for test in found for name in test.known_as}
            fix = did_you_mean(pattern, known, "`icegate audit` without --select runs all")
            what = f"cannot find a test for {pattern!r}"
            raise ConfigError(what, why="no compiled test or model has this name", fix=fix)
    chosen = [t for t in found if not patterns or any(_matches(t, p) for p in patterns)]
    if chosen and not any(test.sql for test in chosen):
        raise not_compiled(chosen[0])
    return chosen


def all_tests(project: Path) -> list[DataTest]:
    """Return the tests that dbt's last command knew. While it builds none of them has a query."""
    manifest = read_manifest(project, "the project's tests")
    return sorted(_tests(manifest), key=lambda test: (test.model, test.name))


def not_compiled(test: DataTest) -> ConfigError:
    """Return the error of a test without a query."""
    return ConfigError(
        f"cannot run test {test.name}",
        why="it was parsed, but not compiled, as one that a build skips",
        fix="compile it: `dbt compile`",
    )


def _matches(test: DataTest, pattern: str) -> bool:
    return any(fnmatchcase(name, pattern) for name in test.known_as)


def _tests(manifest: dict[str, Any]) -> Iterator[DataTest]:
    nodes = manifest["nodes"]
    # A build compiles the name that a new table has until it's released.
    finals = {
        staging_name(f"{node['schema']}.{node['alias']}", ""): f"{node['schema']}.{node['alias']}"
        for node in nodes.values()
    }
    staged = re.compile(rf"\b{NAMESPACE}\.({'|'.join(map(re.escape, finals))})\w+")
    for node in nodes.values():
        if node["resource_type"] != "test":
            continue
        config, owner = node["config"], nodes.get(node.get("attached_node") or "")
        code = staged.sub(lambda found: finals[found[1]], node.get("compiled_code") or "")
        code = final_names(code, {})
        yield DataTest(
            name=node["name"],
            model=f"{owner['schema']}.{owner['alias']}" if owner else "",
            sql=_question(code, config) if code else "",
            severity=config["severity"].lower(),
            written=json.dumps(
                [node["unique_id"], node.get("raw_code"), node.get("test_metadata")]
                + [config.get(name) for name in _ASKED]
            ),
        )


def _question(code: str, config: dict[str, Any]) -> str:
    """Return what dbt asks of a test's failing rows."""
    if config.get("limit"):
        code = f"select * from (\n{code}\n) as limited limit {config['limit']}"
    calc = config["fail_calc"]
    return (
        f"select {calc} as failures, {calc} {config['warn_if']} as should_warn, "
        f"{calc} {config['error_if']} as should_error\nfrom (\n{code}\n) dbt_internal_test"
    )

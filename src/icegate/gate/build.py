"""A build: its name, its branch, and the lock that tells other processes that it's alive."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from typing import Any

from icegate.catalog import catalog_of
from icegate.errors import ConfigError, GateError
from icegate.explain import is_gone
from icegate.gate.refs import BUILD_STAMP, Metadata, branch_of, builds
from icegate.locks import Held, Lock, alone
from icegate.settings import Lake

NAME = re.compile(r"(?!.*__)[a-z][a-z0-9_]{0,59}")  # `__` ends a table's name in staging
OF_INVOCATION = re.compile(r"[0-9a-f]{8}")
WAP_BRANCH = "spark.wap.branch"
STAMP = "spark.sql.iceberg.snapshot-property."
INVOCATION_STAMP = "icegate.invocation"
WRITE = "write through the gate"  # what can't be done without a lock


def check_name(name: str) -> str:
    """Return the name of a build or raise: it becomes part of a branch's name."""
    if NAME.fullmatch(name) or OF_INVOCATION.fullmatch(name):
        return name
    raise ConfigError(
        f"cannot name a release {name!r}",
        why="its name becomes part of a branch: a letter, then letters, digits and single _, all "
        "lower case, 60 at most",
        fix="set ICEGATE_RELEASE to a name like nightly_2026_03_01",
    )


def is_own_name(name: str) -> bool:
    """Tell whether a build has its name from dbt's invocation rather than from a person."""
    return OF_INVOCATION.fullmatch(name) is not None


@dataclass(frozen=True)
class Build:
    """One build as a process of dbt takes part in it."""

    name: str
    invocation_id: str
    named: bool

    @property
    def branch(self) -> str:
        """The branch of each table that it writes to."""
        return branch_of(self.name)

    def conf(self) -> dict[str, str]:
        """Return what sends a Spark session's writes to the branch, and signs them."""
        return {
            WAP_BRANCH: self.branch,
            f"{STAMP}{BUILD_STAMP}": self.name,
            f"{STAMP}{INVOCATION_STAMP}": self.invocation_id,
        }

    def enter(self, session: Any) -> None:
        """Send the session's writes to the branch."""
        for key, value in self.conf().items():
            session.conf.set(key, value)

    def leave(self, session: Any) -> None:
        """Send the session's writes to main again; of one whose server is gone nothing is left."""
        try:
            for key in self.conf():
                session.conf.unset(key)
        except Exception as error:
            if not is_gone(error):
                raise


def hold_alive(lake: Lake, build: str) -> AbstractContextManager[Held]:
    """Hold what marks a build as alive until it's closed or the process ends."""
    held = _lock(lake, build).take(WRITE, shared=True)  # processes of one named build share it
    return closing(held)


def is_alive(lake: Lake, build: str) -> bool:
    """Tell whether a process of the build still runs."""
    return _lock(lake, build).is_held


def writing_builds(lake: Lake, metadata: Metadata) -> list[str]:
    """Return the builds that have a branch of a table, and of which a process still runs."""
    return [build for build in builds(metadata) if is_alive(lake, build)]


@contextmanager
def ending(lake: Lake, build: str) -> Iterator[None]:
    """Hold while a person ends a build: no process of it runs, and none begins meanwhile."""
    held = _lock(lake, build).try_take(WRITE)
    if held is None:
        raise GateError(
            f"cannot end build {build}",
            why="it's half built: a process of it is running",
            fix="wait until that has ended, or stop it",
        )
    with closing(held):
        yield


def hold_table(lake: Lake, build: str, table: str) -> AbstractContextManager[None]:
    """Hold while a node writes a table of a build: no other process of it does."""
    return alone(_lock(lake, f"{build}.{table}"), WRITE)


def publishing(lake: Lake) -> AbstractContextManager[None]:
    """Hold while this process publishes: one at a time; the lock ends with its process."""
    return alone(catalog_of(lake).lock("publish"), WRITE)


def _lock(lake: Lake, name: str) -> Lock:
    return catalog_of(lake).lock(f"builds/{name}")

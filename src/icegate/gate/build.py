"""A build: its name, its branch, and the lock that tells other processes that it's alive."""

from __future__ import annotations

import fcntl
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from icegate.errors import ConfigError, GateError
from icegate.gate.refs import BUILD_STAMP, Metadata, branch_of, builds
from icegate.locks import alone, is_held, open_lock
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
        """Send the session's writes to main again."""
        for key in self.conf():
            session.conf.unset(key)


def hold_alive(lake: Lake, build: str) -> IO[str]:
    """Return a lock that marks a build as alive until it's closed or the process ends."""
    file = open_lock(_lock_file(lake, build), WRITE)
    fcntl.flock(file, fcntl.LOCK_SH)  # processes of one named build share it
    return file


def is_alive(lake: Lake, build: str) -> bool:
    """Tell whether a process of the build still runs."""
    return is_held(_lock_file(lake, build))


def writing_builds(lake: Lake, metadata: Metadata) -> list[str]:
    """Return the builds that have a branch of a table, and of which a process still runs."""
    return [build for build in builds(metadata) if is_alive(lake, build)]


@contextmanager
def ending(lake: Lake, build: str) -> Iterator[None]:
    """Hold while a person ends a build: no process of it runs, and none begins meanwhile."""
    with open_lock(_lock_file(lake, build), WRITE) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise GateError(
                f"cannot end build {build}",
                why="it's half built: a process of it is running",
                fix="wait until that has ended, or stop it",
            ) from error
        yield


def hold_table(lake: Lake, build: str, table: str) -> AbstractContextManager[None]:
    """Hold while a node writes a table of a build: no other process of it does."""
    return alone(lake.home / "builds" / f"{build}.{table}.lock", WRITE)


def publishing(lake: Lake) -> AbstractContextManager[None]:
    """Hold while this process publishes: one at a time; the lock ends with its process."""
    return alone(lake.home / "publish.lock", WRITE)


def _lock_file(lake: Lake, build: str) -> Path:
    return lake.home / "builds" / f"{build}.lock"

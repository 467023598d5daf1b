"""Errors that a user can act on: each says what, why, and what to do."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence


class IcegateError(Exception):
    """Something that the user can repair; shown without a traceback."""

    exit_code = 1

    def __init__(self, what: str, *, why: str = "", fix: str = "") -> None:
        self.what, self.why, self.fix = what, why, fix
        super().__init__(self.render())

    def render(self) -> str:
        """Return the message as a person reads it: one line each for what, why and fix."""
        lines = [self.what]
        lines += [f"  why: {self.why}"] if self.why else []
        lines += [f"  fix: {self.fix}"] if self.fix else []
        return "\n".join(lines)


class ConfigError(IcegateError):
    """A profile, project file or option that can't be right."""

    exit_code = 2


class JavaError(IcegateError):
    """No Java that this Spark runs on."""


class JarsError(IcegateError):
    """The jars of Iceberg and SQLite are neither here nor to be had."""


class ServerError(IcegateError):
    """A Spark Connect server that can't be started, isn't there or gives no answer."""


class CatalogError(IcegateError):
    """The catalog can't be opened, is locked, or points at files that are gone."""


class StorageError(CatalogError):
    """A bucket that can't be used: what is in it may be there all the same."""


class TableError(IcegateError):
    """A table whose files aren't as its metadata says."""


class LandingError(IcegateError):
    """Landing files that contradict their marker or their declared columns."""


class PropertyError(IcegateError):
    """A table property or profile that Iceberg doesn't know."""


class PackagesError(IcegateError):
    """dbt packages are neither installed nor to be had."""


def did_you_mean(word: str, known: Iterable[str], otherwise: str) -> str:
    """Return the question after the known name that is nearest, or ``otherwise``."""
    close = difflib.get_close_matches(word, list(known), n=1)
    return f"did you mean {close[0]!r}?" if close else otherwise


def some_of(names: Sequence[str], most: int = 3) -> str:
    """Return the first of many names, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{', '.join(names[:most])}{more}"


class GateError(IcegateError):
    """A build or release that can't be published, rejected or found."""

"""Turn an error of Spark, Iceberg or the machine into one that says what to do."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from dbt_common.exceptions import DbtRuntimeError

from icegate.errors import IcegateError


class Cause(NamedTuple):
    """A pattern over the whole chain of an error, and what it means for a person."""

    pattern: str
    what: str
    fix: str


CAUSES = (
    Cause(
        r"database is locked|SQLITE_BUSY",
        "the catalog is locked by another process",
        "wait until that one is done, or stop it; the table is as it was",
    ),
    Cause(
        r"No space left on device|Disk quota exceeded|File too large",
        "the disk is full",
        "free some space and run this again; the table is as it was",
    ),
    Cause(
        r"attempt to write a readonly database|Permission denied",
        "the catalog or the warehouse can't be written",
        "give this user the right to write there",
    ),
    Cause(
        r"org\.apache\.iceberg\.exceptions\.NotFoundException|FileNotFoundException",
        "a file of the table is gone",
        "bring the warehouse back to where the catalog points; `icegate doctor` names the place",
    ),
    Cause(
        r"OutOfMemoryError|Java heap space",
        "Spark ran out of memory",
        "give the target more, such as `memory: 4g`",
    ),
)


@contextmanager
def as_dbt_error() -> Iterator[None]:
    """Raise the library's own errors as dbt's, which name the model and end without a traceback."""
    try:
        yield
    except IcegateError as error:
        raise DbtRuntimeError(str(error)) from error


def explain(error: BaseException) -> str:
    """Return the message for a person; the whole stack stays in dbt's log."""
    chain = _chain(error)
    whole = "\n".join(chain)
    for cause in CAUSES:
        if re.search(cause.pattern, whole):
            return f"{cause.what}\n  why: {_first_line(chain)}\n  fix: {cause.fix}"
    return _without_stack(str(error))


def _chain(error: BaseException) -> list[str]:
    """Collect the messages of a Python error, and of the Java error that it carries."""
    messages = [str(error)]
    java = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    while java is not None and len(messages) < 20:
        messages.append(f"{java.getClass().getName()}: {java.getMessage()}")
        java = java.getCause()
    return messages


def _first_line(chain: list[str]) -> str:
    return _without_stack(chain[-1]).split("\n")[0]


def _without_stack(message: str) -> str:
    """Drop Java's stack and Py4J's preamble, keep Spark's own message and query context."""
    message = re.split(r"\n\s*JVM stacktrace:|\n\s+at [\w.$]+\(|\nDriver stacktrace", message)[0]
    message = re.sub(r"^An error occurred while calling \S+\n?:?\s*", "", message.strip())
    return message.strip()

"""What no branch holds back is refused while a build runs: replacing a table, streaming into it.

Under `spark.wap.branch` each form of create-or-replace empties `main`, and a stream writes to it.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from icegate.errors import GateError

REPLACE = re.compile(
    r"(?:\s|--[^\n]*\n|/\*.*?\*/)*(?:create\s+or\s+)?replace\s+table\s+([\w.`]+)",
    re.IGNORECASE | re.DOTALL,
)
INSTEAD = {
    "replace": "return the DataFrame from `model`, which then replaces all rows on the branch",
    "stream": "write the stream to a table without a gate (`+gate: false`), and read that one",
}


@contextmanager
def guarding(is_protected: Callable[[str], bool], *, remote: bool) -> Iterator[None]:
    """Refuse in this process what would reach the readers of a protected table.

    ``is_protected`` is asked with a name as its author wrote it; ``remote`` is a session of Spark
    Connect.
    """

    def check(name: Any, how: str) -> None:
        if isinstance(name, str) and is_protected(plain(name)):
            raise GateError(
                f"cannot {how} {plain(name)} while a build writes to its branch",
                why="Iceberg would do it on main, where readers see it before any test",
                fix=INSTEAD[how.split()[0]],
            )

    with ExitStack() as stack:
        for owner, method, before in _watched(check, remote):
            original = getattr(owner, method)
            setattr(owner, method, _watching(original, before))
            stack.callback(setattr, owner, method, original)
        yield


def plain(name: str) -> str:
    """Return a table's name without backticks."""
    return name.replace("`", "")


def _watching(original: Any, before: Callable[..., None]) -> Any:
    @functools.wraps(original)
    def watched(self: Any, *args: Any, **kwargs: Any) -> Any:
        before(self, *args, **kwargs)
        return original(self, *args, **kwargs)

    return watched


def _watched(
    check: Callable[[Any, str], None], remote: bool
) -> Iterator[tuple[Any, str, Callable[..., None]]]:
    """Yield classes and methods of pyspark, or of Spark Connect, and what looks at a call first."""
    if remote:  # of the kind that isn't used nothing is imported: that takes a second
        from pyspark.sql.connect import readwriter, session
        from pyspark.sql.connect.streaming import readwriter as streaming
    else:
        from pyspark.sql import readwriter, session  # type: ignore[no-redef]
        from pyspark.sql.streaming import readwriter as streaming  # type: ignore[no-redef]

    def sql(self: Any, query: Any, *args: Any, **kwargs: Any) -> None:
        found = REPLACE.match(query) if isinstance(query, str) else None
        if found:
            check(found[1], "replace")

    def mode(self: Any, saveMode: Any) -> None:
        self._icegate_mode = saveMode

    def save(self: Any, name: Any, format: Any = None, mode: Any = None, *a: Any, **k: Any) -> None:
        if (mode or getattr(self, "_icegate_mode", None)) == "overwrite":
            check(name, "replace")

    def table(self: Any, *args: Any, **kwargs: Any) -> None:  # the writer of `writeTo(name)`
        self._icegate_table = next(filter(lambda arg: isinstance(arg, str), args), None)

    def replace(self: Any) -> None:
        check(self._icegate_table, "replace")

    def stream(self: Any, name: Any = None, *args: Any, **kwargs: Any) -> None:
        check(name or kwargs.get("tableName") or kwargs.get("path"), "stream into")

    yield session.SparkSession, "sql", sql
    yield readwriter.DataFrameWriter, "mode", mode
    yield readwriter.DataFrameWriter, "saveAsTable", save
    yield readwriter.DataFrameWriterV2, "__init__", table
    yield readwriter.DataFrameWriterV2, "createOrReplace", replace
    yield readwriter.DataFrameWriterV2, "replace", replace
    yield streaming.DataStreamWriter, "toTable", stream
    yield streaming.DataStreamWriter, "start", stream

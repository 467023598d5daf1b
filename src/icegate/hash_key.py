"""The key of the macro `keyed_hash`: it goes from the environment to Spark, and into no SQL.

A statement names a temporary view of one row. Spark's plans don't show what is in it, and no view
that stays can be made on one, so that the key gets neither into a log nor into the catalog.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import threading
from collections.abc import MutableMapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from icegate.errors import ConfigError
from icegate.server_launch import write_private

if TYPE_CHECKING:
    from icegate.settings import Lake

VIEW = "icegate_hash_key"
VARIABLE = "DBT_ENV_SECRET_ICEGATE_HASH_KEY"  # dbt strikes the values of such names from its logs
FEWEST = 16  # characters: a shorter key can be guessed

_homes: MutableMapping[Any, Path | None] = WeakKeyDictionary()  # by session
_offered: MutableMapping[Any, str] = WeakKeyDictionary()
_lock = threading.Lock()


def remember(session: Any, lake: Lake, *, is_local: bool) -> None:
    """Keep where a session may find the key of its project: nowhere on another machine."""
    _homes[session] = lake.home if is_local else None


def with_key(session: Any, sql: str) -> str:
    """Return a statement; where it names the view of the key, the session has it from now on.

    Raises ``ConfigError`` where there is no key.
    """
    if VIEW in sql:
        if not hasattr(session, "createDataFrame"):
            raise ConfigError(
                "cannot compute keyed_hash",
                why="its key may go to Spark in no SQL, and a Thrift server takes only that",
                fix="name the Spark Connect server of the same application: `connect: sc://…`",
            )
        with _lock:
            key = read(_homes.get(session))
            if _offered.get(session) != key:
                session.createDataFrame([(key,)], "value string").createOrReplaceTempView(VIEW)
                _offered[session] = key
    return sql


def read(home: Path | None) -> str:
    """Return the key: that of the environment, else a random one that a project's home keeps."""
    key = os.environ.get(VARIABLE)
    if key is None and home is not None:
        return _own(home / "hash_key")
    if key is not None and len(key.strip()) >= FEWEST:
        return key
    raise ConfigError(
        "cannot compute keyed_hash",
        why=f"{VARIABLE} is {'not set' if key is None else f'shorter than {FEWEST} characters'}",
        fix="set it to a long random text, the same for all who build these tables",
    )


def fingerprint(home: Path) -> str:
    """Return what tells one key from another, and doesn't help to guess it."""
    return hashlib.pbkdf2_hmac("sha256", read(home).encode(), b"icegate", 100_000).hex()[:16]


def _own(path: Path) -> str:
    if not path.exists():
        beside = path.with_name(f".{path.name}-{secrets.token_hex(4)}")
        write_private(beside, secrets.token_hex(32))
        with suppress(FileExistsError):  # another process was first: both take its key
            os.link(beside, path)
        beside.unlink()
    return path.read_text()

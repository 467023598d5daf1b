"""Table properties: Iceberg takes any name in silence, so a typing error has to be caught here."""

from __future__ import annotations

import difflib
from functools import cache
from pathlib import Path
from typing import Any

from icegate.errors import PropertyError, did_you_mean

KNOWN_FILE = Path(__file__).with_name("iceberg_properties.txt")
SIMILAR = 0.8
LEVELS = ("serializable", "snapshot")


@cache
def known_properties() -> frozenset[str]:
    """Return the names of ``org.apache.iceberg.TableProperties``; one ending in a dot is a prefix.

    A test compares the file with the constants of the jar.
    """
    return frozenset(KNOWN_FILE.read_text().split())


def isolation_properties(level: str | None) -> dict[str, str]:
    """Return what isolates changes of a table from other writers; raises ``PropertyError``."""
    if level not in (None, *LEVELS):
        raise PropertyError(
            f"unknown isolation {level!r}",
            why=f"Iceberg knows {' and '.join(LEVELS)}",
            fix="take one of them; 'snapshot' doesn't see rows that others append meanwhile",
        )
    changes = ("delete", "update", "merge")
    return {f"write.{change}.isolation-level": level for change in changes if level}


def check_properties(properties: dict[str, Any]) -> dict[str, str]:
    """Return ``properties`` as text; raises ``PropertyError`` for a name that Iceberg lacks.

    A name outside Iceberg's own families that resembles none of Iceberg's is the owner's label.
    """
    known = known_properties()
    families = {name.partition(".")[0] for name in known}
    prefixes = tuple(name for name in known if name.endswith("."))
    for name in properties:
        if name in known or name.startswith(prefixes):
            continue
        close = difflib.get_close_matches(name, known, n=1, cutoff=SIMILAR)
        if close or name.partition(".")[0] in families:
            raise PropertyError(
                f"unknown table property {name!r}",
                why="Iceberg would store it and ignore it",
                fix=f"did you mean {close[0]!r}?" if close else "see docs/table-profiles.md",
            )
    return {name: _text(value) for name, value in properties.items()}


def profile_properties(profile: str | None, profiles: dict[str, Any]) -> dict[str, Any]:
    """Return the properties of a named table profile; raises ``PropertyError``."""
    if profile is None:
        return {}
    if profile not in profiles:
        raise PropertyError(
            f"unknown table profile {profile!r}",
            why=f"macro table_profiles has: {', '.join(profiles) or 'none'}",
            fix=did_you_mean(profile, profiles, "add it to that macro"),
        )
    properties: dict[str, Any] = profiles[profile]
    return properties


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)

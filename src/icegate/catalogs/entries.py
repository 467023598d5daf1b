"""What a catalog has, and moves of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from icegate.storage import local_path, shown


class CatalogEntry(NamedTuple):
    """One table or view as the catalog has it."""

    namespace: str
    name: str
    kind: str  # table or view
    metadata_location: str

    @property
    def full_name(self) -> str:
        """The two-part name that people write."""
        return f"{self.namespace}.{self.name}"

    def renamed(self, full_name: str) -> CatalogEntry:
        """Return the same under another two-part name."""
        namespace, _, name = full_name.partition(".")
        return self._replace(namespace=namespace, name=name)

    @property
    def metadata_file(self) -> Path:
        """Where the metadata file lies on this machine."""
        return local_path(self.metadata_location)

    @property
    def shown_file(self) -> str:
        """Where the metadata file lies, as people and DuckDB write it."""
        return shown(self.metadata_location)


class Step(NamedTuple):
    """A move of one table or view from one metadata file to the next, and maybe to a new name.

    One that wasn't there has no old file, and one that goes no new one; its files stay.
    ``metadata`` is what the new file says.
    """

    namespace: str
    name: str
    old_location: str | None
    new_location: str | None
    metadata: dict[str, Any] | None = None
    new_name: tuple[str, str] | None = None

    def renamed(self, namespace: str, name: str) -> Step:
        """Return the same move to another name."""
        return self._replace(new_name=(namespace, name))

    @property
    def full_name(self) -> str:
        """The two-part name that it has before."""
        return f"{self.namespace}.{self.name}"

    @property
    def final_name(self) -> tuple[str, str]:
        """Schema and name that it has then."""
        return self.new_name or (self.namespace, self.name)


class Moved(Exception):
    """Someone else's commit came between reading tables and moving their pointers."""

    def __init__(self, table: str) -> None:
        self.table = table
        super().__init__(table)

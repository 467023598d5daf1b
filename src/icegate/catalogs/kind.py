"""What a lake asks of its catalog, whichever it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from icegate.catalogs.entries import CatalogEntry, Step
from icegate.locks import Lock

if TYPE_CHECKING:
    import pyiceberg.catalog


class Kind(Protocol):
    """A kind of catalog; as text, what people know it by.

    Whatever can't be done is raised as ``CatalogError``.
    """

    @property
    def anew(self) -> str:
        """What a person does to begin without the tables that there are."""

    @property
    def publishes(self) -> str:
        """How a release gets to its readers, to end the sentence `a release …`."""

    @property
    def keeps_files(self) -> bool:
        """Tell whether a table's files stay unless its `gc.enabled` is true."""

    @property
    def has_views(self) -> bool:
        """Tell whether it has views; without them models that are views become tables."""

    @property
    def at_once(self) -> bool:
        """Tell whether readers see all steps of a move in the same moment."""

    @property
    def comes_late(self) -> bool:
        """Tell whether a move may still come through after its answer was lost."""

    def conf(self) -> dict[str, str]:
        """Return what Spark's catalog is set to, below its name."""

    def secrets(self) -> dict[str, str]:
        """Return what has to be set as well, once Spark runs, and is shown nowhere."""

    def lock(self, name: str) -> Lock:
        """Return a lock between all processes that use the catalog."""

    def check(self) -> None:
        """Raise unless this user may write it, and now."""

    def relations(self, schema: str | None) -> list[CatalogEntry]:
        """Return tables and views, of all schemas or of one in any case; none before the first."""

    def schemas(self) -> set[str]:
        """Return all schemas, those without a table too."""

    def marked(self, key: str) -> dict[str, str]:
        """Return the value of a property by the schemas that have it."""

    def mark(self, schema: str, key: str, value: str) -> None:
        """Give a schema a property, unless it has it."""

    def make_schema(self, schema: str) -> None:
        """Make a schema unless it's there."""

    def drop_schema(self, schema: str) -> None:
        """Drop a schema that has no tables any more."""

    def move(self, steps: Sequence[Step]) -> None:
        """Take all steps at once, or none: raise ``Moved``, naming who is in the way."""

    def took(self, steps: Sequence[Step]) -> bool:
        """Tell whether it took steps of which it said nothing; one tells all."""

    def tables(self) -> pyiceberg.catalog.Catalog:
        """Return PyIceberg's way to the same tables; it lists no views."""

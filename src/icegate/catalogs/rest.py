"""Iceberg's REST catalog: a server that is told what to change, and writes the metadata itself.

PyIceberg's client finds the server's settings and says who asks; what the server is asked is as
JSON here, since that client knows neither views' commits nor those of many tables.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from icegate import storage
from icegate.aws import AT_ONCE
from icegate.catalogs.entries import CatalogEntry
from icegate.catalogs.http import Refused
from icegate.catalogs.lease import beside_tables
from icegate.catalogs.rest_client import Client, Name, schema_path, secrets_of, suppress_status
from icegate.catalogs.rest_moves import MISSING, TOGETHER, RestMoves
from icegate.errors import CatalogError
from icegate.locks import Lock

if TYPE_CHECKING:
    from icegate.settings import Lake

TABLE = "/v1/{prefix}/namespaces/{namespace}/tables"
NEEDED = {"make a table": f"POST {TABLE}", "change a table": f"POST {TABLE}/{{table}}"}
KINDS = ("table", "view")


class Rest(RestMoves):
    """A warehouse of a server that speaks Iceberg's REST protocol."""

    comes_late = True  # a request may be on its way when who sent it gives up
    keeps_files = at_once = False

    def __init__(self, lake: Lake) -> None:
        self.lake = lake

    def __str__(self) -> str:
        warehouse = self.lake.catalog_options.get("warehouse")
        return f"{self.lake.catalog_uri}{f', warehouse {warehouse}' if warehouse else ''}"

    @property
    def anew(self) -> str:
        """What a person does to begin without the tables that there are."""
        return f"drop its tables there, delete {storage.shown(self.lake.root)}, and build again"

    @property
    def publishes(self) -> str:
        """How a release gets to its readers."""
        if TOGETHER in self._client.endpoints:
            return (
                "moves its tables in one commit of the server, and new ones and views just "
                "before: a build that is killed in between is ended by the next"
            )
        return (
            "moves its tables each by itself, as this server has no commit for many: a build "
            "that is killed in between is ended by the next"
        )

    def conf(self) -> dict[str, str]:
        """Return what Spark's catalog is set to."""
        return {"type": "rest", "uri": str(self.lake.catalog_uri), **self.lake.catalog_options}

    def secrets(self) -> dict[str, str]:
        """Return token and credential, which the arguments of a process would show to everyone."""
        return secrets_of(self.lake)

    def lock(self, name: str) -> Lock:
        """Return a lock between all processes that see the tables: the server itself has none."""
        return beside_tables(self.lake, name)

    def check(self) -> None:
        """Raise unless the server can do what the gate needs; end what another process left."""
        if lacks := [what for what, how in NEEDED.items() if how not in self._client.endpoints]:
            raise CatalogError(
                f"cannot use the catalog {self}",
                why=f"this server can't {' or '.join(lacks)}, which the gate needs",
                fix="take another server; or name this one in `spark_conf`, without `gate`: "
                "docs/targets.md",
            )
        self.settle()

    def relations(self, schema: str | None) -> list[CatalogEntry]:
        """Return tables and views, of all schemas or of one in any case."""
        asked = [s for s in self.schemas() if schema is None or s.lower() == schema.lower()]
        kinds = KINDS if self.has_views else KINDS[:1]
        with ThreadPoolExecutor(AT_ONCE) as threads:
            listed = threads.map(self._names, [(s, kind) for s in asked for kind in kinds])
            names = [each for found in listed for each in found]
            return [*filter(None, threads.map(self._entry, names))]

    def schemas(self) -> set[str]:
        """Return all schemas, those without a table too; none that is in another."""
        return {".".join(each) for each in self._client.pages("namespaces", "namespaces")}

    def marked(self, key: str) -> dict[str, str]:
        """Return the value of a property by the schemas that have it."""
        schemas = sorted(self.schemas())
        with ThreadPoolExecutor(AT_ONCE) as threads:
            found = dict(zip(schemas, threads.map(self._properties, schemas), strict=True))
        return {name: told[key] for name, told in found.items() if key in told}

    def mark(self, schema: str, key: str, value: str) -> None:
        """Give a schema a property, unless it has it."""
        self.make_schema(schema)
        if key not in self._properties(schema):
            told = {"removals": [], "updates": {key: value}}
            self._client.send("POST", f"{schema_path(schema)}/properties", told)

    def make_schema(self, schema: str) -> None:
        """Make a schema unless it's there."""
        if schema in self.schemas():
            return
        place = {"location": f"{self.lake.root}/{schema}"}
        new = {"namespace": schema.split("."), "properties": place}
        try:
            self._client.send("POST", "namespaces", new)
        except Refused:  # with a status of each server's own where another process made it
            if schema not in self.schemas():
                raise

    def drop_schema(self, schema: str) -> None:
        """Drop a schema that has no tables any more."""
        with suppress_status(MISSING):
            self._client.send("DELETE", schema_path(schema))

    def tables(self) -> Client:
        """Return PyIceberg's way to the same tables."""
        return self._client

    def _names(self, of: Name) -> list[tuple[str, str, str]]:
        """Return kind, schema and name of all tables, or of all views, of a schema."""
        schema, kind = of
        with suppress_status(MISSING):
            found = self._client.pages(f"{schema_path(schema)}/{kind}s", "identifiers")
            return [(kind, schema, each["name"]) for each in found]
        return []  # it was dropped meanwhile

    def _entry(self, of: tuple[str, str, str]) -> CatalogEntry | None:
        kind, schema, name = of
        found = self._loaded(kind, schema, name, short=True)
        return CatalogEntry(schema, name, kind, found.location) if found else None

    def _properties(self, schema: str) -> dict[str, str]:
        with suppress_status(MISSING):
            return self._client.send("GET", schema_path(schema)).get("properties") or {}
        return {}

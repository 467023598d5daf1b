"""AWS's Glue: its databases are schemas, and each of its tables has a pointer of its own.

As Iceberg's `GlueCatalog` writes them: a commit is an `UpdateTable` that names the version which
it was made on.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from icegate import aws
from icegate.catalogs.entries import CatalogEntry, Moved
from icegate.catalogs.lease import beside_tables
from icegate.catalogs.pointers import Pointers
from icegate.errors import CatalogError
from icegate.locks import Lock

if TYPE_CHECKING:
    from icegate.catalogs.tables import Tables
    from icegate.settings import Lake

POINTER, BEFORE, TYPE = "metadata_location", "previous_metadata_location", "table_type"
MISSING, THERE, CHANGED = (
    "EntityNotFoundException",
    "AlreadyExistsException",
    "ConcurrentModificationException",
)
DENIED = ("AccessDeniedException", "AccessDenied")
CAUSES: aws.Causes = (
    (
        DENIED,
        "this user may not do that there: {said}",
        "grant glue:GetDatabases, GetTables, GetTable, CreateTable, UpdateTable and DeleteTable on "
        "the lake's databases, as deploy/aws/lake.yml does",
    ),
    (
        (MISSING,),
        "{said}",
        "make the database: deploy/aws/lake.yml makes those of this project",
    ),
    (
        ("ResourceNumberLimitExceededException", "ThrottlingException"),
        "the account's limit is reached: {said}",
        "wait, or ask AWS for a higher one",
    ),
)
# Hive's names of Iceberg's types; what isn't here has the same one.
HIVE = {"long": "bigint", "timestamptz": "timestamp", "time": "string", "uuid": "string"}

Table = dict[str, Any]


class Glue(Pointers):
    """The databases of an account and region whose files are in the lake's folder."""

    comes_late = True  # a request may be on its way when who sent it gives up
    keeps_files = False
    has_views = at_once = False
    publishes = (
        "moves its tables each by itself, as Glue has no step for many: a build that is "
        "killed in between is ended by the next, and a release's tag is in all of them at last"
    )

    def __init__(self, lake: Lake) -> None:
        self.lake = lake

    def __str__(self) -> str:
        return f"AWS Glue in {aws.region()}"

    @property
    def anew(self) -> str:
        """What a person does to begin without the tables that there are."""
        return f"drop its tables in Glue, delete {self.lake.root}, and build again"

    def conf(self) -> dict[str, str]:
        """Return what Spark's catalog is set to; the key Java finds as AWS's other tools do.

        By its class, as AWS's own guides set it: a Spark of EMR may have that already, and Iceberg
        refuses the two ways together.
        """
        url = aws.endpoint("glue")
        implementation = "org.apache.iceberg.aws.glue.GlueCatalog"
        return {"catalog-impl": implementation, **({"glue.endpoint": url} if url else {})}

    def secrets(self) -> dict[str, str]:
        """Return what has to be set as well, and is shown nowhere."""
        return {}

    def lock(self, name: str) -> Lock:
        """Return a lock between all processes that use the lake's bucket: Glue itself has none."""
        return beside_tables(self.lake, name)

    def check(self) -> None:
        """Raise unless Glue answers, and bring to its end what another process left."""
        self._databases()
        self.settle()

    def relations(self, schema: str | None) -> list[CatalogEntry]:
        """Return the tables of all schemas, or of one in any case."""
        databases = self._databases().items()
        asked = [each for name, each in databases if schema is None or name == schema.lower()]
        with ThreadPoolExecutor(aws.AT_ONCE) as threads:
            return [entry for found in threads.map(self._listed, asked) for entry in found]

    def schemas(self) -> set[str]:
        """Return all schemas, those without a table too."""
        return {*self._databases()}

    def marked(self, key: str) -> dict[str, str]:
        """Return the value of a property by the schemas that have it."""
        found = self._databases()
        return {
            name: found[name]["Parameters"][key]
            for name in sorted(found)
            if key in found[name].get("Parameters", {})
        }

    def mark(self, schema: str, key: str, value: str) -> None:
        """Give a schema a property, unless it has it."""
        self.make_schema(schema)
        database = self._databases()[schema]
        properties = database.get("Parameters", {})
        if key not in properties:
            kept = {k: database[k] for k in ("Name", "Description", "LocationUri") if k in database}
            new = {**kept, "Parameters": {**properties, key: value}}
            with self._explained():
                self._client.update_database(Name=schema, DatabaseInput=new)

    def make_schema(self, schema: str) -> None:
        """Make a schema unless it's there."""
        if schema in self._databases():
            return
        new = {"Name": schema, "LocationUri": f"{self.lake.root}/{schema}"}
        try:
            with self._explained(THERE):
                self._client.create_database(DatabaseInput=new)
        except _Said as said:
            if schema not in self._databases():
                raise CatalogError(
                    f"cannot make the schema {schema} in {self}",
                    why="another lake of this account has it: its files are elsewhere",
                    fix="give this lake another `schema:`, or an account or a region of its own",
                ) from said

    def drop_schema(self, schema: str) -> None:
        """Drop a schema that has no tables any more."""
        if schema in self._databases():
            with self._explained():
                self._client.delete_database(Name=schema)

    def tables(self) -> Tables:
        """Return PyIceberg's way to the same tables."""
        from icegate.catalogs.tables import Tables

        return Tables(self.lake)

    def pointer(self, schema: str, name: str) -> str | None:
        """Return where the metadata of a table is, None when there's no such table."""
        return _pointer(self._table(schema, name))

    def put(self, schema: str, name: str, old: str | None, new: str, metadata: Any) -> None:
        """Move a pointer from ``old``, or make it; raise ``Moved`` unless it's ``new`` then."""
        table = self._table(schema, name)
        now = _pointer(table)
        if now == new:
            return
        if now != old or (table and now is None):
            raise Moved(f"{schema}.{name}")
        given = {"DatabaseName": schema, "TableInput": _input(name, table, new, metadata)}
        try:
            with self._explained(CHANGED, THERE, *([MISSING] if table else [])):
                if table is None:
                    self._client.create_table(**given)
                else:
                    version = table["VersionId"]
                    self._client.update_table(**given, VersionId=version, SkipArchive=True)
        except _Said as said:  # or it was taken, and sent again as there was no answer
            if self.pointer(schema, name) != new:
                raise Moved(f"{schema}.{name}") from said

    def remove(self, schema: str, name: str, old: str) -> None:
        """Take a table out of the catalog; raise ``Moved`` where it isn't at ``old``."""
        now = self.pointer(schema, name)
        if now is None:
            return
        if now != old:
            raise Moved(f"{schema}.{name}")
        try:
            with self._explained(MISSING):
                self._client.delete_table(DatabaseName=schema, Name=name)
        except _Said:
            return  # it's gone

    @property
    def _client(self) -> Any:
        return aws.client("glue")

    def _databases(self) -> dict[str, dict[str, Any]]:
        """Return the lake's databases: others of the account have their files elsewhere."""
        found = self._paged("get_databases", "DatabaseList")
        return {
            each["Name"]: each
            for each in found
            if self._is_own(f"{each.get('LocationUri') or self.lake.root}/")
        }

    def _is_own(self, location: str) -> bool:
        return location.startswith(f"{self.lake.root}/")

    def _listed(self, database: dict[str, Any]) -> list[CatalogEntry]:
        """Return the tables of a database; one that says no place may be another lake's."""
        name, is_ours = database["Name"], bool(database.get("LocationUri"))
        said = [MISSING] if is_ours else [MISSING, *DENIED]
        try:
            found = [*self._paged("get_tables", "TableList", *said, DatabaseName=name)]
        except _Said:  # it was dropped meanwhile, or is none of ours
            return []
        return [
            CatalogEntry(name, table["Name"], "table", at)
            for table in found
            if (at := _pointer(table)) is not None and (is_ours or self._is_own(at))
        ]

    def _table(self, schema: str, name: str) -> Table | None:
        try:
            with self._explained(MISSING):
                found: Table = self._client.get_table(DatabaseName=schema, Name=name)["Table"]
        except _Said:
            return None
        return found

    def _paged(self, call: str, of: str, *said: str, **given: str) -> Iterator[dict[str, Any]]:
        with self._explained(*said):
            for page in self._client.get_paginator(call).paginate(**given):
                yield from page[of]

    @contextmanager
    def _explained(self, *said: str) -> Iterator[None]:
        """Raise what Glue says as ``CatalogError``, and as ``_Said`` what is among these codes."""
        what, known = f"cannot use the catalog {self}", dict.fromkeys(said, _Said())
        with aws.explained(what, CatalogError, "Glue", CAUSES, known):
            yield


class _Said(Exception):
    """What Glue says no with, and who asks knows what that means."""


def _pointer(table: Table | None) -> str | None:
    """Return where the metadata of an Iceberg table is; Glue has tables of other kinds, too."""
    told = (table or {}).get("Parameters", {})
    return told.get(POINTER) if told.get(TYPE, "").upper() == "ICEBERG" else None


def _input(name: str, table: Table | None, new: str, metadata: Any) -> dict[str, Any]:
    """Return what Glue is told of a table: its columns too, which other tools show."""
    old = _pointer(table)
    parameters = {**(table or {}).get("Parameters", {}), TYPE: "ICEBERG", POINTER: new}
    return {
        "Name": name,
        "TableType": "EXTERNAL_TABLE",
        "Description": (metadata.get("properties") or {}).get("comment", "")[:2048],
        "Parameters": parameters | ({BEFORE: old} if old else {}),
        "StorageDescriptor": {"Location": metadata["location"], "Columns": _columns(metadata)},
    }


def _columns(metadata: Any) -> list[dict[str, Any]]:
    """Return the columns that a table has, and then those that it had."""
    current = metadata["current-schema-id"]
    schemas = sorted(metadata["schemas"], key=lambda schema: schema["schema-id"] != current)
    found: dict[str, dict[str, Any]] = {}
    for schema in schemas:
        for field in schema["fields"]:
            told = {
                "iceberg.field.id": str(field["id"]),
                "iceberg.field.optional": str(not field["required"]).lower(),
                "iceberg.field.current": str(schema["schema-id"] == current).lower(),
            }
            column = {"Name": field["name"], "Type": _hive(field["type"]), "Parameters": told}
            doc = {"Comment": field["doc"][:255]} if field.get("doc") else {}
            found.setdefault(field["name"], column | doc)
    return [*found.values()]


def _hive(told: Any) -> str:
    """Return Hive's name of an Iceberg type."""
    if isinstance(told, str):
        return "binary" if told.startswith("fixed") else HIVE.get(told, told.replace(" ", ""))
    if told["type"] == "list":
        return f"array<{_hive(told['element'])}>"
    if told["type"] == "map":
        return f"map<{_hive(told['key'])},{_hive(told['value'])}>"
    fields = ",".join(f"{each['name']}:{_hive(each['type'])}" for each in told["fields"])
    return f"struct<{fields}>"

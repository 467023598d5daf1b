"""Lakes of the harness, each with a catalog of its own: a file, a database, a branch of Nessie,
a REST server.

On Glue they have one account, so each begins by forgetting the tables of the one before.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import boto3
from pyiceberg.table import StaticTable

from icegate.catalogs.lease import _is_live
from icegate.objects import aged
from icegate.settings import Lake

# How each process of the harness learns of the server; a build gets the password alone.
SERVER, PASSWORD, NESSIE = "TORTURE_POSTGRES", "TORTURE_PASSWORD", "TORTURE_NESSIE"
GLUE = "AWS_ENDPOINT_URL_GLUE"
REST = "TORTURE_REST"
RUNNING: list[Any] = []  # what serves the catalogs by REST, in the process that makes lakes


@contextmanager
def server(kind: str) -> Iterator[dict[str, str]]:
    """Run a server for the catalogs of all lakes; yield what processes have to know of it."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "python"))
    from targets import glue_server, nessie_server, postgres_server, rest_server

    if kind == "sqlite":
        yield {}
    elif kind == "nessie":
        with nessie_server.running() as nessie:
            os.environ[NESSIE] = nessie.uri
            yield {NESSIE: nessie.uri}
    elif kind == "glue":
        with glue_server.running() as glue:
            yield glue.environ
    elif kind == "rest":
        with rest_server.running() as rest:
            RUNNING.append(rest)
            os.environ[REST] = kind
            yield {REST: kind}
    else:
        with postgres_server.running() as running:
            known = {SERVER: running.uri(), PASSWORD: postgres_server.PASSWORD}
            os.environ |= known
            yield known


def lake_of(home: Path, **keys: Any) -> Lake:
    """Return the lake of a home, and of the other machines beside it."""
    home = home.absolute()
    where: dict[str, str] = {}
    if uri := database_of(home):
        where = {"catalog_uri": uri, "catalog_password": os.environ[PASSWORD]}
    elif uri := os.environ.get(NESSIE):
        where = {"catalog_type": "nessie", "catalog_uri": uri, "catalog_ref": _name(home)}
    elif GLUE in os.environ:
        where = {"catalog_type": "glue", "bucket": f"s3://lake/{_name(home)}"}
    elif REST in os.environ:
        where = {"catalog_type": "rest", "catalog_uri": _rest(home).read_text()}
    return Lake(home=home, warehouse=home.parent / "warehouse", **where, **keys)


def _rest(home: Path) -> Path:
    """Return the file that tells where the server of a lake is, beside the server's own."""
    return home.parent / "served" / "catalog_uri"


def _name(home: Path) -> str:
    return f"lake_{hashlib.sha256(str(home.absolute().parent).encode()).hexdigest()[:12]}"


def database_of(home: Path) -> str:
    """Return the URI of the database of a lake, or nothing where its catalog is a file."""
    server = os.environ.get(SERVER, "")
    return server and f"{server.rpartition('/')[0]}/{_name(home)}"


def is_shared() -> bool:
    """Tell whether the catalogs are on a server, for builds of several machines."""
    return any(name in os.environ for name in (SERVER, NESSIE, GLUE, REST))


def moves_at_once() -> bool:
    """Tell whether readers see all tables of a release in the same moment."""
    return GLUE not in os.environ and REST not in os.environ


def is_moving(home: Path) -> bool:
    """Tell whether tables of a release are on their way, where each moves by itself."""
    if moves_at_once():
        return False
    if REST in os.environ:
        return any((home.parent / "warehouse" / ".moves").glob("*"))
    folder = f"{_name(home)}/.moves/"
    return bool(_aws("s3").list_objects_v2(Bucket="lake", Prefix=folder)["KeyCount"])


def make_catalog(home: Path) -> None:
    """Make the database or the branch of a lake, or forget the tables of another one."""
    if uri := database_of(home):
        _ask(os.environ[SERVER], f"create database {uri.rpartition('/')[2]}")
    elif NESSIE in os.environ:
        from targets.nessie_server import NessieServer

        port = int(os.environ[NESSIE].rpartition(":")[2].partition("/")[0])
        NessieServer(home, port).catalog(_name(home))
    elif REST in os.environ:
        own = _rest(home).parent
        own.mkdir()
        (rest,) = RUNNING
        address = rest.serve(Lake(home=own, warehouse=home.parent / "warehouse"))
        _rest(home).write_text(address)
    elif GLUE in os.environ:
        from targets.glue_server import forget_tables

        forget_tables()


def read_pointers(home: Path) -> dict[str, str]:
    """Return where the metadata of each table is, all of one moment; not by code of Icegate.

    Glue tells that of one table after the other.
    """
    if NESSIE in os.environ:
        return _nessie_pointers(home)
    if GLUE in os.environ:
        return _glue_pointers()
    found = _rows(home)
    return {
        f"{row['table_namespace']}.{row['table_name']}": row["metadata_location"]
        for row in found
        if row.get("iceberg_type") != "VIEW"
    }


def _nessie_pointers(home: Path) -> dict[str, str]:
    path = f"trees/{_name(home)}/entries?content=true"
    with urlopen(f"{os.environ[NESSIE]}/{path}", timeout=60) as answer:
        found = json.load(answer)
    assert not found["hasMore"]
    return {
        ".".join(each["name"]["elements"]): each["content"]["metadataLocation"]
        for each in found["entries"]
        if each["type"] == "ICEBERG_TABLE"
    }


def _glue_pointers() -> dict[str, str]:
    glue = _aws("glue")
    return {
        f"{table['DatabaseName']}.{table['Name']}": table["Parameters"]["metadata_location"]
        for database in glue.get_databases()["DatabaseList"]
        for page in glue.get_paginator("get_tables").paginate(DatabaseName=database["Name"])
        for table in page["TableList"]
    }


@cache
def _aws(service: str) -> Any:
    """Return a client, which is made once: readers ask many times a second."""
    return boto3.client(service)


def read_table(metadata: str) -> StaticTable:
    """Return a table as one of its metadata files has it."""
    aws = {"s3.endpoint": "AWS_ENDPOINT_URL_S3", "s3.region": "AWS_REGION"}
    return StaticTable.from_metadata(
        metadata, {key: os.environ[name] for key, name in aws.items() if name in os.environ}
    )


def _rows(home: Path) -> list[dict[str, Any]]:
    if uri := database_of(home):
        made = _ask(uri, "select to_regclass('iceberg_tables') is not null as made")
        return _ask(uri, "select * from iceberg_tables") if made[0]["made"] else []
    catalog = (_rest(home).parent if REST in os.environ else home) / "catalog.db"
    if not catalog.exists():
        return []
    db = sqlite3.connect(f"file:{catalog}?mode=ro", uri=True, timeout=60)
    try:
        if not db.execute("select 1 from sqlite_master where name = 'iceberg_tables'").fetchall():
            return []
        rows = db.execute("select * from iceberg_tables")
        names = [column[0] for column in rows.description]
        return [dict(zip(names, row, strict=True)) for row in rows]
    finally:
        db.close()


def held_locks(home: Path) -> Iterator[str]:
    """Yield the locks of builds that a process still holds."""
    if uri := database_of(home):
        name = uri.rpartition("/")[2]
        held = f"""
            select objid from pg_locks join pg_database on pg_database.oid = pg_locks.database
            where locktype = 'advisory' and datname = '{name}'"""
        yield from (f"advisory lock {row['objid']}" for row in _ask(uri, held))
    if GLUE in os.environ:
        held = aged(f"{lake_of(home).root}/.locks/lake")
        yield from (each.location for each in held if _is_live(each))
    here = [*(home / "builds").glob("*.lock"), *home.glob("publish.lock")]
    for path in [*here, *(home.parent / "warehouse" / ".locks").rglob("*.lock")]:
        with path.open() as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield path.name


def _ask(uri: str, statement: str) -> list[dict[str, Any]]:
    import psycopg
    from psycopg.rows import dict_row

    password = os.environ[PASSWORD]
    with psycopg.connect(uri, password=password, autocommit=True, row_factory=dict_row) as db:
        cursor = db.execute(statement)  # type: ignore[call-overload]
        return cursor.fetchall() if cursor.description else []

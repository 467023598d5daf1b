"""A REST catalog of AWS's, Glue's or S3 Tables', wants requests that are signed by who asks."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

import pytest
from conftest import make_home

from icegate.catalog import catalog_of, check_catalog, list_relations
from icegate.settings import Lake
from targets import rest_server, s3_server
from targets.door import door
from targets.machine import on_spark
from targets.moving import next_of

pytestmark = [pytest.mark.long, pytest.mark.targets]

SIGNED = {
    "rest.sigv4-enabled": "true",
    "rest.signing-name": "s3tables",
    "rest.signing-region": "eu-central-1",
}


def test_python_and_spark_sign_what_they_ask(tmp_path: Path) -> None:
    asked: list[str] = []

    def guard(what: str, user: str, body: bytes) -> tuple[int, bytes] | None:
        asked.append(what)
        is_signed = user.startswith("AWS4-HMAC-SHA256 ") and "/eu-central-1/s3tables/" in user
        return None if is_signed else (403, b'{"error": {"message": "not signed", "code": 403}}')

    places = {"home": make_home(tmp_path / "home"), "warehouse": tmp_path / "a warehouse"}
    with s3_server.running() as objects, s3_server.using(**objects.environ):
        bucket = f"s3://{objects.bucket}/tables"
        with rest_server.running() as server:
            keys = server.catalog("lake", bucket=bucket)
            with door(urlsplit(keys["catalog_uri"]).port or 0, guard) as address:
                keys |= {"catalog_uri": address, "catalog_options": SIGNED}
                lake = Lake(**places, bucket=bucket, **keys)
                check_catalog(lake)
                by_python = len(asked)
                tables = [f"create table s.{name} as select 1 as id" for name in "ab"]
                on_spark(lake, "create namespace s", *tables)
                assert len(asked) > by_python > 0
                catalog_of(lake).move(next_of(lake, "a", "b"))
                assert [e.full_name for e in list_relations(lake, "s")] == ["s.a", "s.b"]
    assert any(what.startswith("POST /v1/transactions/commit") for what in asked)

"""Where a catalog is: what of a target's keys fits its kind, before anything is opened."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import SplitResult, urlsplit

from icegate.errors import ConfigError

SCHEMES = ("postgresql", "postgres")
# What both drivers, Spark's and Python's, understand in the same way.
OPTIONS = {"sslmode", "sslrootcert", "options"}
REST = "`catalog_uri: https://host/api/catalog`"
NESSIE = "`catalog_uri: http://host:19120/api/v2`"
POSTGRES = "`postgresql://user@host:5432/database`"
WHAT = "cannot use `catalog_uri:` of the target"
SHOWN = "there is a password in it, which would be shown"


def check_place(
    kind: str | None, uri: str | None, bucket: str | None, options: Mapping[str, str]
) -> None:
    """Raise ``ConfigError``, which doesn't show the address, where it can't be one of its kind."""
    if options:
        _check_options(kind, options)
    if kind == "glue":
        return _check_glue(uri, bucket)
    form = {"nessie": NESSIE, "rest": REST}.get(kind or "", POSTGRES)
    if uri is None:
        if kind is not None:
            raise ConfigError(
                WHAT, why=f"catalog_type {kind} needs an address", fix=f"write it as {form}"
            )
        return None
    fix = f"write it as {form}; docs/targets.md"
    try:
        url = urlsplit(uri)
        _ = url.port  # which may be none
    except ValueError as error:
        raise ConfigError(WHAT, why=str(error), fix=fix) from None
    if kind == "nessie":
        _check_nessie(url, fix)
    elif kind == "rest":
        _check_server(url, fix)
    else:
        _check_postgres(url, fix)
    return None


def _check_options(kind: str | None, options: Mapping[str, str]) -> None:
    """Raise ``ConfigError`` for options that aren't a REST catalog's, or that have a key."""
    what = "cannot use `catalog_options:` of the target"
    if kind != "rest":
        fix = "leave it out, or write `catalog_type: rest`"
        raise ConfigError(what, why="only catalog_type rest has any", fix=fix)
    for name in options:
        if name in ("token", "credential"):
            raise ConfigError(what, why=SHOWN, fix=_by_variable(f"catalog_{name}"))
        if name.lower() == "header.authorization":
            raise ConfigError(what, why=SHOWN, fix=_by_variable("catalog_token"))
        if "secret" in name.lower() or "password" in name.lower():
            fix = "leave it out: for a bucket AWS's own variables say it; docs/targets.md"
            raise ConfigError(what, why=SHOWN, fix=fix)
        if name in ("uri", "type"):
            raise ConfigError(what, why=f"{name} is said elsewhere", fix="leave it out")


def _check_glue(uri: str | None, bucket: str | None) -> None:
    """Raise ``ConfigError`` unless the tables are where AWS's other tools find them."""
    if uri is not None:
        why = "catalog_type glue has none: account and region are those of AWS's own settings"
        raise ConfigError(WHAT, why=why, fix="leave it out; set AWS_PROFILE or AWS_REGION")
    if bucket is None:
        raise ConfigError(
            "cannot use `warehouse:` of the target",
            why="catalog_type glue needs tables in S3",
            fix="write it as `warehouse: s3://bucket/folder`; docs/targets.md",
        )


def _check_nessie(url: SplitResult, fix: str) -> None:
    """Raise ``ConfigError`` unless it's the address of Nessie's API, version 2."""
    _check_server(url, fix)
    if url.path.rstrip("/").rpartition("/")[2] != "v2" or url.query:
        raise ConfigError(WHAT, why="Nessie's API of version 2 ends in /api/v2", fix=fix)


def _check_server(url: SplitResult, fix: str) -> None:
    """Raise ``ConfigError`` unless it's the address of an HTTP server, without a password."""
    if url.scheme not in ("http", "https") or not url.hostname:
        raise ConfigError(WHAT, why="it's no address of an HTTP server", fix=fix)
    if url.password is not None or url.username is not None:
        raise ConfigError(WHAT, why=SHOWN, fix=_by_variable("catalog_token"))


def _check_postgres(url: SplitResult, fix: str) -> None:
    """Raise ``ConfigError`` unless it's the address of a database, without its password."""
    if url.scheme not in SCHEMES:
        raise ConfigError(WHAT, why=f"{url.scheme or 'nothing'} is no database of ours", fix=fix)
    if url.password is not None:
        raise ConfigError(WHAT, why=SHOWN, fix=_by_variable("catalog_password"))
    if not url.hostname or not url.path.strip("/") or url.port == 0:
        raise ConfigError(WHAT, why="it names no host, or no database", fix=fix)
    unknown = {pair.partition("=")[0] for pair in url.query.split("&") if pair} - OPTIONS
    if unknown:
        known = ", ".join(sorted(OPTIONS))
        raise ConfigError(WHAT, why=f"{', '.join(sorted(unknown))}: known are {known}", fix=fix)


def _by_variable(key: str) -> str:
    name = f"DBT_ENV_SECRET_{key.upper()}"
    return f"set `{key}: \"{{{{ env_var('{name}') }}}}\"` in its place; docs/targets.md"

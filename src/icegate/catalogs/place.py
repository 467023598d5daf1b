"""Where a catalog is: what of a target's keys fits its kind, before anything is opened."""

from __future__ import annotations

from urllib.parse import urlsplit

from icegate.errors import ConfigError

SCHEMES = ("postgresql", "postgres")
# What both drivers, Spark's and Python's, understand in the same way.
OPTIONS = {"sslmode", "sslrootcert", "options"}
NESSIE = "`catalog_uri: http://host:19120/api/v2`"
WHAT = "cannot use `catalog_uri:` of the target"
TOKEN = "set `catalog_token: \"{{ env_var('DBT_ENV_SECRET_CATALOG_TOKEN') }}\"` in its place"


def check_place(kind: str | None, uri: str | None) -> None:
    """Raise ``ConfigError``, which doesn't show the address, where it can't be one of its kind."""
    if uri is None and kind is not None:
        fix = f"write it as {NESSIE}" if kind == "nessie" else "write it as `postgresql://…`"
        raise ConfigError(WHAT, why=f"catalog_type {kind} needs an address", fix=fix)
    if uri is not None and kind == "nessie":
        _check_nessie(uri)
    elif uri is not None:
        _check_postgres(uri)


def _check_nessie(uri: str) -> None:
    """Raise ``ConfigError`` unless it's the address of Nessie's API, version 2."""
    fix = f"write it as {NESSIE}; docs/targets.md"
    url = urlsplit(uri)
    if url.scheme not in ("http", "https") or not url.hostname:
        raise ConfigError(WHAT, why="it's no address of an HTTP server", fix=fix)
    if url.password is not None or url.username is not None:
        raise ConfigError(WHAT, why="there is a password in it, which would be shown", fix=TOKEN)
    if url.path.rstrip("/").rpartition("/")[2] != "v2" or url.query:
        raise ConfigError(WHAT, why="Nessie's API of version 2 ends in /api/v2", fix=fix)


def _check_postgres(uri: str) -> None:
    """Raise ``ConfigError`` unless it's the address of a database, without its password."""
    fix = "write it as `postgresql://user@host:5432/database`; docs/targets.md"
    try:
        url = urlsplit(uri)
        port, password = url.port, url.password
    except ValueError as error:
        raise ConfigError(WHAT, why=str(error), fix=fix) from None
    if url.scheme not in SCHEMES:
        raise ConfigError(WHAT, why=f"{url.scheme or 'nothing'} is no database of ours", fix=fix)
    if password is not None:
        key = "`catalog_password: \"{{ env_var('DBT_ENV_SECRET_CATALOG_PASSWORD') }}\"`"
        fix = f"set {key} in its place; docs/targets.md"
        raise ConfigError(WHAT, why="there is a password in it, which would be shown", fix=fix)
    if not url.hostname or not url.path.strip("/") or port == 0:
        raise ConfigError(WHAT, why="it names no host, or no database", fix=fix)
    unknown = {pair.partition("=")[0] for pair in url.query.split("&") if pair} - OPTIONS
    if unknown:
        known = ", ".join(sorted(OPTIONS))
        raise ConfigError(WHAT, why=f"{', '.join(sorted(unknown))}: known are {known}", fix=fix)

"""Files in S3, and in what speaks like it; Spark and DuckDB are told the same place."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any, NamedTuple

from icegate import aws
from icegate.errors import StorageError

# What S3 says no with, by its own codes.
CAUSES: aws.Causes = (
    (("NoSuchBucket",), "there is no such bucket", "make it, or correct `warehouse:`"),
    (
        ("PermanentRedirect", "301", "AuthorizationHeaderMalformed", "IllegalLocationConstraint"),
        "the bucket is in another region",
        "set AWS_REGION to the one that it's in",
    ),
    (
        ("AccessDenied", "403", "AllAccessDisabled"),
        "this user may not do that there",
        "grant s3:GetObject, PutObject, DeleteObject below `warehouse:`, and ListBucket on it",
    ),
)
GONE = ("NoSuchKey", "404", "NotFound")
TAKEN = ("PreconditionFailed", "ConditionalRequestConflict", "412", "409")


class Stat(NamedTuple):
    """What is known of a file: its bytes, and when it was written, in seconds since 1970."""

    size: int
    written: float


class Aged(NamedTuple):
    """An object, by the tag of what it says, and the seconds since it was written."""

    location: str
    tag: str
    age_s: float


def check(location: str) -> None:
    """Raise ``StorageError`` unless the bucket answers, in its region, to this user."""
    bucket, prefix = _parts(location)
    with _explained(location):
        _client().list_objects_v2(Bucket=bucket, Prefix=f"{prefix.rstrip('/')}/", MaxKeys=1)


def read(location: str) -> bytes:
    """Return what an object says; raises ``FileNotFoundError``."""
    bucket, key = _parts(location)
    with _explained(location):
        body: bytes = _client().get_object(Bucket=bucket, Key=key)["Body"].read()
    return body


def write(location: str, data: bytes) -> None:
    """Write an object."""
    bucket, key = _parts(location)
    with _explained(location):
        _client().put_object(Bucket=bucket, Key=key, Body=data)


def upload(path: Path, location: str) -> None:
    """Write a file of any size as an object."""
    bucket, key = _parts(location)
    with _explained(location):
        _client().upload_file(str(path), bucket, key)


def copy(location: str, to: str) -> None:
    """Copy an object, which needn't come here for it."""
    (source, key), (bucket, to_key) = _parts(location), _parts(to)
    with _explained(to):
        _client().copy({"Bucket": source, "Key": key}, bucket, to_key)


def write_over(location: str, data: bytes, tag: str | None) -> str:
    """Write an object where none is, or over the one with that tag, and return its own tag.

    ``data`` has to be this writer's alone: raises ``FileExistsError`` where another one wrote.
    """
    bucket, key = _parts(location)
    where = {"IfMatch": tag} if tag else {"IfNoneMatch": "*"}
    try:
        with _explained(location):
            return str(_client().put_object(Bucket=bucket, Key=key, Body=data, **where)["ETag"])
    except FileExistsError:
        with suppress(FileNotFoundError), _explained(location):  # who was first may be done by now
            there = _client().get_object(Bucket=bucket, Key=key)
            if there["Body"].read() == data:  # the answer was lost, and it was sent again
                return str(there["ETag"])
        raise


def delete(location: str, tag: str | None = None) -> None:
    """Delete an object, if it's there; with a tag, if it's still that one."""
    bucket, key = _parts(location)
    where = {"IfMatch": tag} if tag else {}
    with suppress(FileExistsError, FileNotFoundError), _explained(location):
        _client().delete_object(Bucket=bucket, Key=key, **where)


def stat(location: str) -> Stat:
    """Return what S3 tells of an object; raises ``FileNotFoundError``."""
    bucket, key = _parts(location)
    with _explained(location):
        told = _client().head_object(Bucket=bucket, Key=key)
    return Stat(int(told["ContentLength"]), told["LastModified"].timestamp())


def listed(location: str) -> dict[str, Stat]:
    """Return what S3 tells of each object below a folder, by location."""
    bucket, prefix = _parts(location)
    scheme, found = location.partition("://")[0], {}
    with _explained(location):
        pages = _client().get_paginator("list_objects_v2")
        for page in pages.paginate(Bucket=bucket, Prefix=f"{prefix.rstrip('/')}/"):
            for each in page.get("Contents", ()):
                stat = Stat(int(each["Size"]), each["LastModified"].timestamp())
                found[f"{scheme}://{bucket}/{each['Key']}"] = stat
    return found


def aged(location: str) -> list[Aged]:
    """Return the objects below a folder, of which there are few, by S3's own clock."""
    bucket, prefix = _parts(location)
    with _explained(location):
        told = _client().list_objects_v2(Bucket=bucket, Prefix=f"{prefix.rstrip('/')}/")
    now = parsedate_to_datetime(told["ResponseMetadata"]["HTTPHeaders"]["date"])
    scheme = location.partition("://")[0]
    return [
        Aged(
            f"{scheme}://{bucket}/{each['Key']}",
            str(each["ETag"]),
            (now - each["LastModified"]).total_seconds(),
        )
        for each in told.get("Contents", ())
    ]


def delete_below(location: str) -> None:
    """Delete all objects below a folder."""
    for each in listed(location):
        delete(each)


def duckdb_secret() -> str:
    """Return the SQL that lets DuckDB in; it holds the key, so it's to be shown nowhere."""
    from icegate.duck import quoted

    found = aws.session().get_credentials()
    options = {"region": aws.region()}
    if found is not None:
        frozen = found.get_frozen_credentials()
        options |= {"key_id": frozen.access_key, "secret": frozen.secret_key}
        options |= {"session_token": frozen.token} if frozen.token else {}
    if url := aws.endpoint("s3"):
        scheme, _, host = url.partition("://")
        options |= {"endpoint": host, "url_style": "path", "use_ssl": str(scheme == "https")}
    told = ", ".join(f"{name} {quoted(value)}" for name, value in options.items())
    return f"create or replace secret lake (type s3, {told})"


def _client() -> Any:
    return aws.client("s3")


def _parts(location: str) -> tuple[str, str]:
    bucket, _, key = location.partition("://")[2].partition("/")
    return bucket, key


@contextmanager
def _explained(location: str) -> Iterator[None]:
    what = f"cannot use {location.partition('://')[0]}://{_parts(location)[0]}"
    gone, taken = f"{location} isn't there", f"{location} is another one's"
    known: dict[str, Exception] = dict.fromkeys(GONE, FileNotFoundError(gone))
    known |= dict.fromkeys(TAKEN, FileExistsError(taken))
    with aws.explained(what, StorageError, "S3", CAUSES, known):
        yield

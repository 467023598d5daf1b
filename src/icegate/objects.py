"""Files in S3, and in what speaks like it, by AWS's own variables, files and roles.

`AWS_ENDPOINT_URL_S3` names another server than AWS's; Spark and DuckDB are told the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, NamedTuple

from icegate.errors import ConfigError, StorageError

# By S3's own code of an error.
CAUSES = (
    (
        ("InvalidAccessKeyId", "SignatureDoesNotMatch", "InvalidToken", "AuthFailure"),
        "S3 refuses this key",
        "correct AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN, or AWS_PROFILE",
    ),
    (
        ("ExpiredToken", "RequestExpired", "TokenRefreshRequired"),
        "the credentials have expired",
        "log in again, and run this again: what was published stays",
    ),
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
AT_ONCE = 16  # objects that threads read: each answer is waited for
GONE = ("NoSuchKey", "404", "NotFound")


class Stat(NamedTuple):
    """What is known of a file: its bytes, and when it was written, in seconds since 1970."""

    size: int
    written: float


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


def delete(location: str) -> None:
    """Delete an object, if it's there."""
    bucket, key = _parts(location)
    with _explained(location):
        _client().delete_object(Bucket=bucket, Key=key)


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


def delete_below(location: str) -> None:
    """Delete all objects below a folder."""
    for each in listed(location):
        delete(each)


def endpoint() -> str | None:
    """Return the address of a server that isn't AWS's, None for AWS."""
    url = str(_client().meta.endpoint_url)
    return (
        None if url.partition("://")[2].endswith((".amazonaws.com", ".amazonaws.com.cn")) else url
    )


def region() -> str:
    """Return the region of AWS that is set."""
    return str(_client().meta.region_name)


def duckdb_secret() -> str:
    """Return the SQL that lets DuckDB in; it holds the key, so it's to be shown nowhere."""
    from icegate.duck import quoted

    found = _session().get_credentials()
    options = {"region": region()}
    if found is not None:
        frozen = found.get_frozen_credentials()
        options |= {"key_id": frozen.access_key, "secret": frozen.secret_key}
        options |= {"session_token": frozen.token} if frozen.token else {}
    if url := endpoint():
        scheme, _, host = url.partition("://")
        options |= {"endpoint": host, "url_style": "path", "use_ssl": str(scheme == "https")}
    told = ", ".join(f"{name} {quoted(value)}" for name, value in options.items())
    return f"create or replace secret lake (type s3, {told})"


@cache
def _session() -> Any:
    try:
        import boto3
    except ImportError as error:
        raise ConfigError(
            "cannot use a warehouse in S3",
            why="boto3 isn't installed",
            fix="`pip install 'icegate[s3]'`",
        ) from error
    return boto3.Session()


@cache
def _client() -> Any:
    session = _session()
    from botocore.config import Config

    again = Config(
        retries={"mode": "standard", "max_attempts": 5},
        connect_timeout=10,
        max_pool_connections=AT_ONCE,
    )
    return session.client("s3", config=again)


def _parts(location: str) -> tuple[str, str]:
    bucket, _, key = location.partition("://")[2].partition("/")
    return bucket, key


@contextmanager
def _explained(location: str) -> Iterator[None]:
    from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError

    what = f"cannot use {location.partition('://')[0]}://{_parts(location)[0]}"
    try:
        yield
    except ClientError as error:
        code = str(error.response.get("Error", {}).get("Code"))
        if code in GONE:
            raise FileNotFoundError(f"{location} isn't there") from error
        known = ((why, fix) for codes, why, fix in CAUSES if code in codes)
        why, fix = next(known, (f"S3 says {code}", "see to that, and run it again"))
        raise StorageError(what, why=why, fix=fix) from error
    except NoCredentialsError as error:
        raise StorageError(
            what,
            why="there are no credentials",
            fix="set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_PROFILE, or take a role",
        ) from error
    except BotoCoreError as error:
        raise StorageError(
            what,
            why=f"no answer from it: {error}",
            fix="see that it's reached from here; or correct AWS_ENDPOINT_URL_S3",
        ) from error

"""AWS's own client: its variables, files and roles say who may do what, and where servers are.

`AWS_ENDPOINT_URL_S3` and `AWS_ENDPOINT_URL_GLUE` name other servers than AWS's.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

from icegate.errors import ConfigError, IcegateError

AT_ONCE = 16  # requests that threads make: each answer is waited for

# Codes of errors, what each means, and what to do.
Causes = Sequence[tuple[tuple[str, ...], str, str]]
# What all services of AWS say of who asks, before each one's own.
LOGIN: Causes = (
    (
        (
            *("InvalidAccessKeyId", "SignatureDoesNotMatch", "InvalidToken", "AuthFailure"),
            *("UnrecognizedClientException", "InvalidSignatureException"),
            *("InvalidClientTokenId", "IncompleteSignatureException"),
        ),
        "{service} refuses this key",
        "correct AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN, or AWS_PROFILE",
    ),
    (
        (
            *("ExpiredToken", "RequestExpired", "TokenRefreshRequired"),
            "ExpiredTokenException",
        ),
        "the credentials have expired",
        "log in again, and run this again: what was published stays",
    ),
)


@cache
def session() -> Any:
    """Return boto3's session, which finds who we are."""
    try:
        import boto3
    except ImportError as error:
        raise ConfigError(
            "cannot use AWS",
            why="boto3 isn't installed",
            fix="`pip install 'icegate[s3]'`",
        ) from error
    # boto3 alone among AWS's tools reads the region from AWS_DEFAULT_REGION only.
    return boto3.Session(region_name=boto3.Session().region_name or os.environ.get("AWS_REGION"))


@cache
def client(service: str) -> Any:
    """Return the client of a service; it may be used by several threads."""
    own = session()
    from botocore.config import Config
    from botocore.exceptions import NoRegionError

    again = Config(
        retries={"mode": "standard", "max_attempts": 5},
        connect_timeout=10,
        max_pool_connections=AT_ONCE,
    )
    try:
        return own.client(service, config=again)
    except NoRegionError as error:
        raise ConfigError(
            f"cannot use AWS's {service}",
            why="no region is set",
            fix="set AWS_REGION, or `region` of the profile that AWS_PROFILE names",
        ) from error


def endpoint(service: str) -> str | None:
    """Return the address of a server that isn't AWS's, None for AWS."""
    url = str(client(service).meta.endpoint_url)
    return (
        None if url.partition("://")[2].endswith((".amazonaws.com", ".amazonaws.com.cn")) else url
    )


def region() -> str:
    """Return the region of AWS that is set."""
    return str(client("s3").meta.region_name)


@contextmanager
def explained(
    what: str,
    kind: type[IcegateError],
    service: str,
    causes: Causes,
    known: Mapping[str, Exception],
) -> Iterator[None]:
    """Raise what a service says, or that it says nothing, as an error of ``kind``.

    What is ``known``, by its code, is raised as that: who asks has an answer to it.
    """
    session()  # without boto3 it says so
    from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError

    try:
        yield
    except ClientError as error:
        said = error.response["Error"]
        code = str(said.get("Code"))
        if code in known:
            raise known[code] from error
        found = ((why, fix) for codes, why, fix in (*LOGIN, *causes) if code in codes)
        unknown = "{service} says {code}: {said}", "see to that, and run it again"
        why, fix = next(found, unknown)
        told = {"service": service, "code": code, "said": said.get("Message")}
        raise kind(what, why=why.format(**told), fix=fix) from error
    except NoCredentialsError as error:
        raise kind(
            what,
            why="there are no credentials",
            fix="set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_PROFILE, or take a role",
        ) from error
    except BotoCoreError as error:
        variable = service.upper().replace(" ", "_")
        raise kind(
            what,
            why=f"no answer from it: {error}",
            fix=f"see that it's reached from here; or correct AWS_ENDPOINT_URL_{variable}",
        ) from error

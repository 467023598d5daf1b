"""What catalogs that are servers are asked over: JSON, by HTTP."""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.request
from typing import Any

from icegate.errors import CatalogError

TIMEOUT_S = 60


class Refused(CatalogError):
    """What a server says no to: its status, and what it says in the field ``message``."""

    def __init__(self, what: str, status: int, said: str) -> None:
        self.status, self.said = status, said
        super().__init__(
            f"cannot use the catalog {what}",
            why=f"the server says: {said} ({status})",
            fix="see to that, and run it again",
        )


def ask(
    what: str, url: str, body: Any = None, *, method: str = "", token: str | None = None
) -> Any:
    """Send a request, and return the answer; raise ``Refused``, or ``CatalogError`` without one.

    ``what`` is what people know the server by.
    """
    headers = {"Accept": "application/json", "Content-Type": "application/json"}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, headers, method=method or None)
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
            return json.loads(answer.read() or b"null")
    except urllib.error.HTTPError as error:
        raise _refusal(what, error) from error
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise no_answer(what, getattr(error, "reason", error)) from error


def no_answer(what: str, reason: object) -> CatalogError:
    """Return the error for a server that said nothing, or nothing that can be read."""
    return CatalogError(
        f"cannot use the catalog {what}",
        why=f"no answer from it: {reason}",
        fix="see that the server runs and is reached from here: `curl`; or correct "
        "`catalog_uri:` of the target",
    )


def refusal(what: str, status: int, said: str, secret: str = "catalog_token") -> Exception:
    """Return ``Refused``, or the error for a user who may not do that, known by ``secret``."""
    if status not in (401, 403):
        return Refused(what, status, said)
    return CatalogError(
        f"cannot use the catalog {what}",
        why=f"the server refuses this user: {said}"
        if status == 401
        else f"this user may not do that there: {said}",
        fix=f"correct the variable that `{secret}:` reads: it may have expired"
        if status == 401
        else "have the right granted",
    )


def _refusal(what: str, error: urllib.error.HTTPError) -> Exception:
    try:
        said = json.loads(error.read())
        message = str(said.get("message") or said.get("reason"))
    except (OSError, ValueError, AttributeError):
        message = str(error.reason)
    return refusal(what, error.code, message)

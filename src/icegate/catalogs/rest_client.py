"""The client of a REST catalog: where the server is, who asks, and what it says no with."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache, partial
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.io import FileIO
from pyiceberg.typedef import EMPTY_DICT
from requests import RequestException, Response, Session
from requests.adapters import HTTPAdapter

from icegate.aws import AT_ONCE
from icegate.catalogs.http import TIMEOUT_S, Refused, no_answer, refusal
from icegate.errors import CatalogError
from icegate.files import StoredFiles

if TYPE_CHECKING:
    from icegate.settings import Lake

UNKNOWN, EXPIRED = 401, 419
DELEGATION = "X-Iceberg-Access-Delegation"

Name = tuple[str, str]  # of a schema, and of a table or view in it


class Client(RestCatalog):
    """PyIceberg's client, which finds what the server is set to, and takes any request."""

    def __init__(self, what: str, secret: str, **properties: str) -> None:
        self.what, self.secret = what, secret
        with self._explained():
            super().__init__("lake", **properties)

    @property
    def endpoints(self) -> set[str]:
        """What the server can be asked, as its protocol's specification writes it."""
        return {str(each) for each in self._supported_endpoints}

    def send(self, method: str, path: str, body: Any = None, **params: str) -> Any:
        """Send a request, and return the answer; raise ``Refused``, or ``CatalogError``."""
        with self._explained():
            answer = self._session.request(method, self.url(path), json=body, params=params)
            if answer.status_code in (UNKNOWN, EXPIRED):  # the token that a credential got
                self._refresh_token()
                answer = self._session.request(method, self.url(path), json=body, params=params)
            if not answer.ok:
                raise self._refusal(answer)
            return answer.json() if answer.content else None

    def pages(self, path: str, of: str) -> Iterator[Any]:
        """Yield what a list has, page by page."""
        page = self.send("GET", path)
        yield from page[of]
        while token := page.get("next-page-token"):
            page = self.send("GET", path, pageToken=token)
            yield from page[of]

    def _create_session(self) -> Session:
        session = super()._create_session()
        for scheme in ("http://", "https://"):  # by itself it keeps ten connections, and warns
            session.mount(scheme, HTTPAdapter(pool_maxsize=AT_ONCE))
        session.request = partial(self._request, session.request)  # type: ignore[method-assign]
        # Files are read with the keys that this machine has, of which a server needn't make more.
        session.headers.pop(DELEGATION, None)
        return session

    def _request(self, request: Callable[..., Response], *given: Any, **named: Any) -> Response:
        try:
            return request(*given, **{"timeout": TIMEOUT_S} | named)
        except RequestException as error:
            raise no_answer(self.what, error) from error

    def _load_file_io(self, properties: Any = EMPTY_DICT, location: str | None = None) -> FileIO:
        return StoredFiles()

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except CatalogError:
            raise
        except (RequestException, ValueError) as error:
            raise no_answer(self.what, error) from error
        except Exception as error:  # of PyIceberg, whose cause has the server's answer
            answer = getattr(error.__cause__, "response", None)
            if answer is None:
                raise
            raise self._final(answer) from error

    def _refusal(self, answer: Response) -> Exception:
        try:
            said = answer.json()["error"]
            said = said["message"] if isinstance(said, dict) else said
        except (ValueError, KeyError, TypeError):
            said = answer.reason
        status = UNKNOWN if answer.status_code == EXPIRED else answer.status_code
        return refusal(self.what, status, str(said), self.secret)

    def _final(self, answer: Response) -> Exception:
        """Return the error of who asked for settings or a token in vain."""
        found = self._refusal(answer)
        if not isinstance(found, Refused):
            return found
        return CatalogError(
            f"cannot use the catalog {self.what}",
            why=f"the server says: {found.said} ({found.status})",
            fix="correct `catalog_uri:` of the target, or the `warehouse` or `oauth2-server-uri` "
            "of its `catalog_options:`",
        )


def secrets_of(lake: Lake) -> dict[str, str]:
    """Return token and credential, by the names that Iceberg's clients have for them."""
    known = {"token": lake.catalog_token, "credential": lake.catalog_credential}
    return {name: secret.get_secret_value() for name, secret in known.items() if secret}


def client_of(lake: Lake, what: str) -> Client:
    """Return the client of a lake's catalog, one in a process."""
    secrets = secrets_of(lake)
    secret = "catalog_credential" if "credential" in secrets else "catalog_token"
    told = {"uri": str(lake.catalog_uri), **lake.catalog_options, **secrets}
    return _client(what, secret, tuple(sorted(told.items())))


@cache
def _client(what: str, secret: str, told: tuple[tuple[str, str], ...]) -> Client:
    return Client(what, secret, **dict(told))


class suppress_status(suppress):  # noqa: N801: as the one of contextlib
    """Suppress what a server refuses with one of these statuses."""

    def __init__(self, *statuses: int) -> None:
        super().__init__(Refused)
        self._statuses = statuses

    def __exit__(self, kind: Any, error: Any, trace: Any) -> bool:
        """Tell whether the error is one of these."""
        return isinstance(error, Refused) and error.status in self._statuses


def schema_path(schema: str) -> str:
    """Return the path of a schema, which may be one in another."""
    return f"namespaces/{'%1F'.join(quote(part, safe='') for part in schema.split('.'))}"


def path_of(kind: str, schema: str, name: str) -> str:
    """Return the path of a table or view."""
    return f"{schema_path(schema)}/{kind}s/{quote(name, safe='')}"


def renames(kind: str) -> str:
    """Return the path that gives tables or views another name."""
    return f"{kind}s/rename"


def name_of(schema: str, name: str) -> dict[str, Any]:
    """Return a name as the protocol writes it."""
    return {"namespace": schema.split("."), "name": name}


def from_to(old: Name, new: Name) -> dict[str, Any]:
    """Return what a rename is told."""
    return {"source": name_of(*old), "destination": name_of(*new)}

"""Channels: where people are told, by names in `meta` and by URLs that only the environment has."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from icegate.errors import ConfigError
from icegate.trust.project import Exposure, Model, Project

if TYPE_CHECKING:
    from apprise.plugins.base import NotifyBase

CHANNELS = "ICEGATE_CHANNELS"
NAMED = "ICEGATE_CHANNEL_"
NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
FILE = "file"  # the one scheme that isn't apprise's


@dataclass(frozen=True)
class Channel:
    """Where to tell people: ``name`` is that in `meta.channel`, "" of those that get the whole.

    ``label`` is what may be shown of ``url``, ``wrong`` why it can't be used.
    """

    name: str
    url: str = field(repr=False)
    label: str
    key: str  # in the ledger
    plugin: NotifyBase | None = field(default=None, repr=False)  # None of a file
    wrong: str = ""

    @property
    def file(self) -> Path:
        """The file that a channel of this scheme writes to."""
        return _path(self.url)


def named(project: Project) -> tuple[list[str], list[ConfigError]]:
    """Return the channels that `meta` of models and exposures names, and what is wrong with others.

    A URL is refused: who has that of a channel can write there, and so it's a password.
    """
    found: dict[str, str] = {}
    nodes: list[Model | Exposure] = [*project.models.values(), *project.exposures.values()]
    for node in nodes:
        if node.owner.channel:
            found.setdefault(node.owner.channel, node.id)
    wrong = [
        ConfigError(
            f"cannot use the `meta.channel` of {id}",
            why="it's a URL, which is a password to who can read it"
            if "://" in name
            else "the name of a channel has letters, digits, - and _",
            fix="give it a name, as in `channel: finance`, and set "
            f"{variable('finance')} to the URL",
        )
        for name, id in found.items()
        if not NAME.fullmatch(name)
    ]
    return sorted(filter(NAME.fullmatch, found)), wrong


def variable(name: str) -> str:
    """Return the environment variable that has the URL of a channel."""
    return CHANNELS if not name else f"{NAMED}{name.upper().replace('-', '_')}"


def channels(names: Iterable[str], environ: Mapping[str, str]) -> list[Channel]:
    """Return those of everybody, then those of the names; of a name without URLs none."""
    try:
        from apprise.utils.parse import parse_urls
    except ImportError as error:
        raise ConfigError(
            "cannot tell anyone", why=str(error), fix="pip install 'icegate[alerts]'"
        ) from error
    found: dict[str, Channel] = {}
    for name in ("", *names):
        for number, url in enumerate(parse_urls(environ.get(variable(name), "")), 1):
            channel = _channel(name, url, f"{variable(name)}, URL {number}")
            found.setdefault(channel.key, channel)
    return [*found.values()]


def _channel(name: str, url: str, place: str) -> Channel:
    """Return a channel; of its URL only scheme and host are shown, and these as apprise masks them.

    Of Slack and others, what stands where the host would be is a part of the password.
    """
    import apprise

    if urlsplit(url).scheme == FILE:
        return Channel(name, url, f"{FILE}://{_path(url)}", _key(name, url))
    # No pictures from elsewhere, and no files of apprise's own.
    asset = apprise.AppriseAsset(app_id="Icegate", app_desc="Icegate", app_url="",
                                 image_url_mask="", image_url_logo="", async_mode=False,
                                 storage_mode="memory")  # fmt: skip
    plugin = apprise.Apprise.instantiate(url, asset=asset)
    if plugin is None:
        return Channel(name, url, place, place, wrong="apprise knows no such URL")
    shown = plugin.url(privacy=True)
    parts = urlsplit(shown)
    host = parts.netloc.rpartition("@")[2]
    return Channel(name, url, f"{parts.scheme}://{host}", _key(name, shown), plugin)


def _key(name: str, shown: str) -> str:
    """Return what the ledger knows a channel by: nothing that a password can be guessed from."""
    return f"{name}:{hashlib.sha256(shown.encode()).hexdigest()[:16]}"


def _path(url: str) -> Path:
    return Path(unquote(url.partition("://")[2]))

"""Delivery of digests by apprise: in bounded time, and noted, so that nobody is told twice."""

from __future__ import annotations

import json
import logging
import re
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from icegate.gate import ledger
from icegate.gate.ledger_rows import Told
from icegate.settings import Lake
from icegate.trust.channels import Channel
from icegate.trust.digest import Digest, Writer

if TYPE_CHECKING:
    from apprise.plugins.base import NotifyBase

DELIVERY_S = 10  # for all channels, which are told at once; what takes longer has failed
SECRET_CHARACTERS = 6  # of a part of a URL, from which on an error that has it isn't shown
DUE, TOLD, SAME, FAILED = "to be told", "told", "nothing new", "failed"


@dataclass
class Outcome:
    """A channel, what there is to tell there, and what came of it."""

    channel: Channel
    digest: Digest
    result: str
    why: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return it as `--json` has it, without the URL."""
        return {
            "channel": self.channel.label,
            "name": self.channel.name,
            "result": self.result,
            "why": self.why,
            "title": self.digest.title,
            "body": self.digest.body,
        }


def plan(
    lake: Lake, writer: Writer, channels: Sequence[Channel], *, again: bool = False
) -> list[Outcome]:
    """Return what there is to tell at each channel that it doesn't know; all of it if ``again``."""
    told = {row.channel: json.loads(row.state) for row in ledger.read_kept(lake, "told")}
    found = []
    for channel in channels:
        known = told.get(channel.key)
        digest = writer.digest(channel.name, known)
        result = DUE if again or known != digest.state else SAME
        found.append(Outcome(channel, digest, FAILED if channel.wrong else result, channel.wrong))
    return found


def tell(lake: Lake, outcomes: Sequence[Outcome]) -> None:
    """Tell all that is due, and note in the ledger what each channel knows now.

    What fails isn't noted, so that the next run tells it. It takes ``DELIVERY_S`` seconds at most;
    what was cut off then may have arrived all the same.
    """
    due = [outcome for outcome in outcomes if outcome.result == DUE]
    deliveries = [_Delivery(outcome) for outcome in due]
    ends = time.monotonic() + DELIVERY_S
    for delivery in deliveries:
        delivery.start()
    for delivery in deliveries:
        delivery.join(max(0, ends - time.monotonic()))
    for outcome, delivery in zip(due, deliveries, strict=True):
        outcome.result, outcome.why = (FAILED if delivery.failed else TOLD), delivery.failed
    if any(outcome.result == TOLD for outcome in outcomes):
        now = datetime.now(timezone.utc)  # of all: rows that nobody renews are dropped one day
        rows = [Told(now, o.channel.key, json.dumps(dict(o.digest.state), sort_keys=True))
                for o in outcomes if o.result in (TOLD, SAME)]  # fmt: skip
        ledger.keep(lake, "told", rows)


class _Delivery(threading.Thread):
    """One channel being told; a thread, so that one that hangs keeps nobody else waiting."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(daemon=True)
        self.channel, self.digest = outcome.channel, outcome.digest
        self.failed = f"no answer within {DELIVERY_S} seconds"

    def run(self) -> None:
        try:
            plugin = self.channel.plugin
            is_told = self._by_apprise(plugin) if plugin else self._to_file()
            self.failed = "" if is_told else self._heard() or "it was refused"
        except Exception as error:  # also what a plugin didn't expect
            self.failed = type(error).__name__

    def _by_apprise(self, plugin: NotifyBase) -> bool:
        import apprise

        found, digest = apprise.Apprise(servers=[plugin]), self.digest
        return bool(found.notify(digest.body, digest.title, digest.mood, body_format="html"))

    def _to_file(self) -> bool:
        path, digest = self.channel.file, self.digest
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as file:
            now = datetime.now().astimezone()
            file.write(f"{now:%F %R %Z}  {digest.title}\n\n{digest.text}\n\n\n")
        return True

    def _heard(self) -> str:
        """Return what apprise said of it, unless that has a part of the URL."""
        said = HEARD.said.get(self.ident or 0, "")
        host = urlsplit(self.channel.label).netloc.partition(":")[0]
        parts = {*re.split(r"[^\w.-]+", unquote(self.channel.url))} - {host}
        secrets = (part for part in parts if len(part) >= SECRET_CHARACTERS)
        return "" if any(secret in said for secret in secrets) else said.rstrip(".")


class _Heard(logging.Handler):
    """The last warning of each thread: of a delivery that failed apprise returns no reason."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.said: dict[int, str] = {}

    def emit(self, record: logging.LogRecord) -> None:
        self.said[record.thread or 0] = record.getMessage()


HEARD = _Heard()
# Of a URL that it doesn't understand apprise logs parts; with a handler nothing is printed.
logging.getLogger("apprise").addHandler(HEARD)
logging.getLogger("apprise").propagate = False

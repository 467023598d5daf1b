"""Locks in a bucket: objects that their process keeps young, and that are nobody's once old.

S3 makes an object only where there is none (`If-None-Match`), and lists what there is as of now.
"""

from __future__ import annotations

import json
import logging
import os
import random
import socket
import threading
import time
import uuid
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from icegate import objects, processes
from icegate.errors import CatalogError
from icegate.locks import FileLock, Lock

if TYPE_CHECKING:
    from icegate.settings import Lake

log = logging.getLogger(__name__)

LEASE_S, RENEW_S = 60.0, 10.0
WAIT_S = (0.1, 0.5)  # between two looks, at random: who waits together asks apart
ALONE = "alone"


class LeaseLock:
    """A lock between all processes that see a bucket: a folder, with an object for each holder."""

    def __init__(self, folder: str, name: str) -> None:
        self.folder, self.name = f"{folder}/{name}", name

    def __str__(self) -> str:
        return self.folder

    def take(self, what: str, *, shared: bool = False) -> Lease:
        """Wait for the lock and return it."""
        while (held := self._tried(shared)) is None:
            time.sleep(random.uniform(*WAIT_S))
        return held

    def try_take(self, what: str) -> Lease | None:
        """Return the lock, or None where someone holds it."""
        return self._tried(shared=False)

    @property
    def is_held(self) -> bool:
        """Tell whether a process holds it."""
        return any(map(_is_live, objects.aged(self.folder)))

    def _tried(self, shared: bool) -> Lease | None:
        """Say that it's ours, and take that back where someone else has it.

        Two who come together see each other, as each says it before it looks. Who is alone has an
        object of one name, of which there can't be two.
        """
        own = f"{self.folder}/{uuid.uuid4().hex if shared else ALONE}"
        try:
            lease = Lease(own)
        except FileExistsError:  # if its process has ended, there's room by now
            return None if own in self._live() else self._tried(shared)
        try:
            others = self._live() - {own}
            if not any(each.endswith(ALONE) or not shared for each in others):
                return lease
        except BaseException:
            lease.close()
            raise
        lease.close()
        return None

    def _live(self) -> set[str]:
        """Return the objects whose process may still run, and delete what others left."""
        live = set()
        for each in objects.aged(self.folder):
            if _is_live(each):
                live.add(each.location)
            else:
                objects.delete(each.location, each.tag)
        return live


def beside_tables(lake: Lake, name: str) -> Lock:
    """Return a lock between all processes that see a lake's tables, for a catalog that has none."""
    if lake.bucket:
        return LeaseLock(f"{lake.root}/.locks/{lake.catalog}", name)
    return FileLock(lake.warehouse / ".locks" / lake.catalog / f"{name}.lock")


class Lease:
    """A lock that is held, and kept so by a thread, until it's closed or its process ends."""

    def __init__(self, location: str) -> None:
        self.location = location
        self._tag = objects.write_over(location, _holder(), None)
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._renew, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Let go of it."""
        self._closed.set()
        self._thread.join()
        with suppress(CatalogError, OSError):  # it grows old by itself
            objects.delete(self.location, self._tag)

    def _renew(self) -> None:
        while not self._closed.wait(RENEW_S):
            try:
                self._tag = objects.write_over(self.location, _holder(), self._tag)
            except (FileExistsError, FileNotFoundError):
                log.error("lock=%s lost: this process was out of reach for too long", self.location)
                return
            except (CatalogError, OSError) as error:  # again in a while
                log.warning("lock=%s not renewed: %s", self.location, error)


def _holder() -> bytes:
    """Return what an object says of its process, in words that no other one has."""
    began = processes.start_of(os.getpid(), "")
    told = {"machine": _machine(), "pid": os.getpid(), "began": began, "as": uuid.uuid4().hex}
    return json.dumps(told).encode()


def _is_live(found: objects.Aged) -> bool:
    """Tell whether the process of an object may still run: one of this machine is looked for."""
    if found.age_s > LEASE_S:
        return False
    try:
        told = json.loads(objects.read(found.location))
    except FileNotFoundError:
        return False
    return told["machine"] != _machine() or told["began"] == processes.start_of(told["pid"], "")


@cache
def _machine() -> str:
    """Return what tells this machine's processes from those of others, containers' too."""
    known = [socket.gethostname(), f"{uuid.getnode():x}"]
    with suppress(OSError):
        known.append(Path("/proc/sys/kernel/random/boot_id").read_text().strip())
        known.append(str(Path("/proc/self/ns/pid").readlink()))
    return " ".join(known)

"""Who meets whom, and what becomes of it. As a program it prints the table of docs/writers.md."""

from __future__ import annotations

import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from conftest import make_home

from writers.failing import failing
from writers.tables import FILES, PARTITIONS, ROWS, Counted, together

ROUNDS = 3
CLOSED = 'p in ("b", "c", "d")'
SUCCEED = "all succeed"
READ, WRITE = "merge-on-read", "copy-on-write"


@dataclass(frozen=True)
class Scene:
    """Writers of one table, whether they meet (None: maybe), and what becomes of them."""

    writers: str
    how: str
    play: Callable[[Any], tuple[Counted, str]]
    outcome: str
    meets: bool | None = False

    @property
    def spoils(self) -> bool:
        """Tell whether the catalog has to fail."""
        return self.writers.startswith(("append,", "append "))


def merges(of: Sequence[str], literal: bool, mode: str, session: Any) -> tuple[Counted, str]:
    """Let a writer for each of the partitions merge some rounds."""
    table = Counted(session, mode)
    jobs = [partial(table.merge, partition, literal) for partition in of]
    raised = together(*(_rounds(ROUNDS, job) for job in jobs))
    merged = {p: (ROUNDS * of.count(p),) * 2 for p in PARTITIONS}
    return table, _told(raised, table.merged() == merged, table.count() == ROWS * FILES * 4)


def appends(session: Any) -> tuple[Counted, str]:
    """Let four writers append some rounds."""
    table = Counted(session)
    jobs = [partial(_append, table, 100 * n) for n in range(1, 5)]
    raised = together(*jobs)
    return table, _told(raised, table.count() == ROWS * (FILES * 4 + ROUNDS * 4))


def _append(table: Counted, first: int) -> None:
    for number in range(first, first + ROUNDS):
        table.insert(number, "a")


def stream(isolation: str, session: Any) -> tuple[Counted, str]:
    """Let one writer append without a pause, until another one has merged or given up."""
    table, done, added = Counted(session, isolation=isolation), threading.Event(), [0]

    def append() -> None:
        while not done.is_set():
            table.insert(100 + added[0], "a")
            added[0] += 1

    def merge() -> None:
        try:
            _rounds(ROUNDS, partial(table.merge, "a", True))()
        finally:
            done.set()

    raised = together(append, merge)
    is_whole = table.count() == ROWS * (FILES * 4 + added[0])
    merged = table.merged()["a"]
    if len(raised) == 1 and merged == (0, 0) and is_whole:
        return table, f"the merge is an error after {table.conflicts()} attempts"
    return table, _told(raised, merged == (ROUNDS, ROUNDS), is_whole)


def compaction(where: str, mode: str, session: Any, in_parts: bool = False) -> tuple[Counted, str]:
    """Let one writer compact some rounds, while another one merges."""
    table = Counted(session, mode)
    merge = partial(table.merge, "a", literal=True)
    compact = partial(table.compact, where, in_parts)
    raised = together(_rounds(ROUNDS, compact), _rounds(2 * ROUNDS, merge))
    every = table.merged()["a"] == (2 * ROUNDS, 2 * ROUNDS)
    return table, _told(raised, every, table.count() == ROWS * FILES * 4)


def spoilt(way: str, session: Any) -> tuple[Counted, str]:
    """Let a commit of an append fail."""
    table = Counted(session)
    # Iceberg has retries of its own for CommitFailedException, whatever its cause.
    own = "set tblproperties ('commit.retry.num-retries' = '0')"
    session.sql(f"alter table {table.name} {own}")
    before = table.count()
    with failing(session, table.name, way):
        raised = together(partial(table.insert, 100, "a"))
    added = (table.count() - before) / ROWS
    if raised:
        return table, f"an error after {table.conflicts() or 1} attempt, and {added:g} times there"
    return table, f"no error, and {added:g} time{'s' if added != 1 else ''} there"


def _rounds(number: int, job: Callable[[], None]) -> Callable[[], None]:
    def run() -> None:
        for _ in range(number):
            job()

    return run


def _told(raised: list[Exception], *holds: bool) -> str:
    if raised:
        return f"{len(raised)} errors, such as {str(raised[0])[:200]}"
    return SUCCEED if all(holds) else "rows are lost or doubled"


ALONE = "an error after 1 attempt, and 0 times there"
ABCD, AAAA = list(PARTITIONS), ["a"] * 4
SCENES = [
    Scene("4 appends", "", appends, SUCCEED),
    *(
        scene
        for mode in (READ, WRITE)
        for scene in (
            Scene("4 merges, a partition each", f"{mode}, `on` has columns only",
                  partial(merges, ABCD, False, mode), SUCCEED, meets=True),
            Scene("4 merges, a partition each", f"{mode}, `on` names the partition by a literal",
                  partial(merges, ABCD, True, mode), SUCCEED),
            Scene("4 merges of the same rows", mode,
                  partial(merges, AAAA, True, mode), SUCCEED, meets=True),
            Scene("compaction and merges", f"{mode}, the whole table",
                  partial(compaction, "", mode), SUCCEED, meets=True),
            Scene("compaction and merges", f"{mode}, `where` leaves the merged partition out",
                  partial(compaction, CLOSED, mode), SUCCEED),
        )
    ),
    Scene("compaction and merges", "merge-on-read, the whole table by the macro `compact`",
          partial(compaction, "", READ, in_parts=True), SUCCEED, meets=None),
    Scene("an append after the other and a merge", "serializable", partial(stream, "serializable"),
          "the merge is an error after 8 attempts", meets=True),
    Scene("an append after the other and merges", "snapshot", partial(stream, "snapshot"), SUCCEED),
    Scene("append, reply lost", "committed", partial(spoilt, "lost after"),
          "no error, and 1 time there"),
    Scene("append, reply lost", "not committed", partial(spoilt, "lost before"), ALONE),
    Scene("append without the right", "`ForbiddenException`", partial(spoilt, "forbidden"), ALONE),
    Scene("append without the right", "`CommitFailedException` because of `AccessDenied`",
          partial(spoilt, "denied"), ALONE),
]  # fmt: skip


def line(scene: Scene, table: Counted, outcome: str) -> str:
    """Return a line of the table."""
    met = table.met.of(table.name)
    waited = f"{met.waited_s:.1f} s" if met.conflicts else ""
    cells = (scene.writers, scene.how, met.conflicts, met.how, waited, outcome)
    return f"| {' | '.join(map(str, cells))} |"


def main() -> None:
    """Play all scenes and print what became of them.

    On a lake of their own; with the folder of a project on its server, whose catalog is Iceberg's
    own and fails on no demand.
    """
    from icegate.connect import local_endpoint
    from icegate.profiles import load_target
    from icegate.session import start_session, stop_session
    from icegate.settings import Lake, lake_from_target
    from writers.failing import failing_session

    on_server = len(sys.argv) > 1
    with tempfile.TemporaryDirectory() as folder:
        if on_server:
            lake = lake_from_target(load_target(Path(sys.argv[1]))[1], Path(sys.argv[1]))
            session = start_session(lake, local_endpoint(lake))
        else:
            home = make_home(Path(folder) / "home")
            lake = Lake(home=home, warehouse=home / "warehouse")
            session = failing_session(start_session(lake), lake)
        print("| writers | | conflicts | how | longest wait | outcome |\n" + "| --- " * 6 + "|")
        for scene in SCENES:
            if not (on_server and scene.spoils):
                print(line(scene, *scene.play(session)), flush=True)
        stop_session()


if __name__ == "__main__":
    main()

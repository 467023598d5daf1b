"""Tables that several writers change at once, so that a change that is lost or doubled shows."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from typing import Any

from icegate.retries import Meetings

PARTITIONS = "abcd"
ROWS = 50  # of a partition at first
FILES = 3  # of a partition at first


class Counted:
    """A table whose merges add one to `n`: how often a row was merged is in it."""

    def __init__(
        self, session: Any, mode: str = "merge-on-read", isolation: str = "serializable"
    ) -> None:
        self.session, self.met = session, Meetings()
        self.name = f"writers.t_{uuid.uuid4().hex[:8]}"
        session.sql("create namespace if not exists writers")
        properties = {
            f"write.{of}.{key}": value
            for of in ("merge", "update", "delete")
            for key, value in (("mode", mode), ("isolation-level", isolation))
        }
        told = ", ".join(f"'{key}' = '{value}'" for key, value in properties.items())
        session.sql(
            f"create table {self.name} (id int, p string, n int) using iceberg "
            f"partitioned by (p) tblproperties ({told})"
        )
        for number in range(FILES):
            self.insert(number, *PARTITIONS)
        self.met.clear()

    def insert(self, number: int, *partitions: str) -> None:
        """Append rows that are new."""
        values = ", ".join(f"('{p}')" for p in partitions)
        ids = f"select id * 1000 + {number} as id from range({ROWS})"
        self._write(
            f"insert into {self.name} select cast(id as int), p, 0 from ({ids}), "
            f"(select * from values {values} as t(p))"
        )

    def merge(self, partition: str, literal: bool = False) -> None:
        """Add one to each first row of a partition."""
        only = f"and t.p = '{partition}' " if literal else ""
        self._write(
            f"merge into {self.name} as t using (select cast(id * 1000 as int) as id, "
            f"'{partition}' as p from range({ROWS})) as s on t.id = s.id and t.p = s.p {only}"
            "when matched then update set n = t.n + 1 "
            "when not matched then insert (id, p, n) values (s.id, s.p, -1000)"
        )

    def compact(self, where: str = "", in_parts: bool = False) -> None:
        """Write the files of each partition into one, by one commit or as the macro `compact`."""
        only = f", where => '{where}'" if where else ""
        self._write(
            f"call system.rewrite_data_files(table => '{self.name}'{only}, "
            "options => map('rewrite-all', 'true', 'remove-dangling-deletes', 'true', "
            f"'partial-progress.enabled', '{str(in_parts).lower()}'))"
        )

    def _write(self, sql: str) -> None:
        self.met.write(self.session, sql)

    def merged(self) -> dict[str, tuple[int, int]]:
        """Return by partition how often its first rows were merged: the fewest and the most."""
        rows = self.session.sql(
            f"select p, min(n), max(n) from {self.name} where id % 1000 = 0 group by p"
        ).collect()
        return {p: (fewest, most) for p, fewest, most in rows}

    def count(self) -> int:
        """Return how many rows there are, of which none is there twice."""
        rows, keys = self.session.sql(
            f"select count(*), count(distinct id, p) from {self.name}"
        ).first()
        assert rows == keys, f"{rows - keys} rows are doubled"
        return int(rows)

    def conflicts(self) -> int:
        return self.met.of(self.name).conflicts


def together(*jobs: Callable[[], Any]) -> list[Exception]:
    """Run all at once, each in a thread; return what they raised."""
    start, raised = threading.Barrier(len(jobs)), list[Exception]()

    def run(job: Callable[[], Any]) -> None:
        start.wait()
        try:
            job()
        except Exception as error:
            raised.append(error)

    threads = [threading.Thread(target=run, args=(job,)) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return raised

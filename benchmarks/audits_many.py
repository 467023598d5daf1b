"""What 1,300 tests of 60 tables cost, at first and after a batch that came to five of them.

Each table has a million rows; a batch is one per cent of that. Whole processes, from a compiled
project: `icegate audit` against dbt-spark's `dbt test`.
"""

from __future__ import annotations

from _bench import Claim, finish, options, sides, timed
from _orders import add_batch, files_of

TABLES, TESTS, ROWS = 60, 1300, 1_000_000
QUICK = 6, 130, 100_000
FIRST, AFTER = 20.0, 60.0  # less CPU
CHANGED = 5


def main() -> None:
    given = options(__doc__ or "", runs=1)
    tables, tests, rows = QUICK if given.quick else (TABLES, TESTS, ROWS)
    names = [f"orders_{number}" for number in range(tables)]
    both = ours, peer = sides("audits_many", files_of(rows, names, tests), audits=True)
    for side in both:
        side.dbt("--quiet", "run")
        side.dbt("--quiet", "compile")
    command = [str(ours.python.parent / "icegate"), "audit"]
    pairs = []
    for number in range(2):
        audited = timed(command, ours.folder, ours.env)
        pairs.append((audited, peer.dbt("--quiet", "test")))
        print("ours {}, stock {}".format(*pairs[-1]), flush=True)
        if number == 0:
            add_batch(both, rows, rows // 100, " ".join(names[:CHANGED]))
    size = f"{tests:,} tests of {tables} tables of {rows:,} rows"
    claims = [
        Claim(f"{size}, {when}", [audited], [stock], bar, of="cpu")
        for when, (audited, stock), bar in zip(
            ("nothing known", "after a batch"), pairs, (FIRST, AFTER), strict=True
        )
    ]
    finish("audits_many", claims)


if __name__ == "__main__":
    main()

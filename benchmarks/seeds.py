"""How long a seed of 100,000 rows takes: one DataFrame against literals in insert statements.

Whole runs, with the start of Spark. For each cell of a column of numbers dbt-spark looks through
all rows again, which takes hours for so many: it is stopped once it has taken longer than the bar.
"""

from __future__ import annotations

import random

from _bench import Claim, finish, options, sides

BAR, ENOUGH = 20.0, 22.0
ROWS, QUICK_ROWS = 100_000, 3_000


def seed(rows: int) -> str:
    """Return people as CSV: a number, a text with a comma, a date, an amount, some empty cells."""
    pick = random.Random(7)
    lines = ["person_id,full_name,joined_on,balance,remark"]
    for number in range(rows):
        remark = "" if number % 3 else f"note {pick.randrange(1000)}"
        day = f"20{pick.randrange(10, 26)}-{pick.randrange(1, 13):02}-{pick.randrange(1, 29):02}"
        name = f'"Doe, {pick.randrange(10**6)}"'
        lines.append(f"{number},{name},{day},{pick.randrange(10**6) / 100},{remark}")
    return "\n".join(lines) + "\n"


def main() -> None:
    given = options(__doc__ or "", runs=2)
    rows = QUICK_ROWS if given.quick else ROWS
    ours, peer = sides("seeds", {"seeds/people.csv": seed(rows)})
    mine, theirs = [], []
    for _ in range(given.runs):
        for side in (ours, peer):
            side.forget()
        mine.append(ours.dbt("--quiet", "seed"))
        theirs.append(peer.dbt("--quiet", "seed", limit_s=ENOUGH * mine[-1].wall))
        print(f"{ours.name}: {mine[-1]}, {peer.name}: {theirs[-1]}", flush=True)
    finish("seeds", [Claim(f"{rows:,} rows", mine, theirs, BAR)])


if __name__ == "__main__":
    main()

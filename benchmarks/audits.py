"""What twenty tests of one table cost, when nothing is known of it and after a small batch.

Both sides build the same tables, and add the same batches of 50,000 rows; whole processes, from a
compiled project. `icegate audit` and our `dbt test` against dbt-spark's. How our cost grows with
the table is told of keys that grow and of keys at random, and drawn beside dbt-spark's.
"""

from __future__ import annotations

from pathlib import Path

from _bench import RESULTS, ROOT, Claim, Cost, Side, finish, options, our_side, sides, timed
from _chart import Line, draw
from _orders import add_batch, files_of

# How much less CPU, by rows of the table: an audit of which nothing is known; after a batch; and
# our `dbt test` after a batch.
Bars = tuple[float | None, float | None, float | None]
NO_BARS: Bars = None, None, None
SIZES = {5_000_000: (15.0, None, None), 25_000_000: (10.0, 60.0, 15.0), 50_000_000: NO_BARS}
QUICK = {200_000: (15.0, None, None), 800_000: NO_BARS}
BATCH = 50_000
FLAT, AT_RANDOM = 1.5, 4.0  # times the cost, at most, of ten times the rows
RANDOM = {
    "models/events.sql": """
{{{{ config(materialized='incremental') }}}}
select md5(cast(id as string)) as event_id, id % 977 as device_id
from range({{{{ var('first', 0) }}}}, {{{{ var('last', {rows}) }}}}, 1, 8)
""",
    "models/events.yml": """
models:
  - name: events
    columns: [{{name: event_id, data_tests: [unique]}}]
""",
}


def audit(side: Side, **env: str) -> Cost:
    """Run `icegate audit` in a side's project."""
    return timed([str(side.python.parent / "icegate"), "audit"], side.folder, side.env | env)


def compare(rows: int, bars: Bars, runs: int) -> list[Claim]:
    """Return what was measured with a table of so many rows."""
    both = ours, peer = sides("audits", files_of(rows), audits=True)
    for side in both:
        side.dbt("--quiet", "run")
        side.dbt("--quiet", "compile")
    unknown, audited, by_dbt, stock, after = [list[Cost]() for _ in range(5)]
    for number in range(runs):
        unknown.append(audit(ours, ICEGATE_FULL="1"))
        stock.append(peer.dbt("--quiet", "test"))
        add_batch(both, rows + 2 * number * BATCH, BATCH)
        audited.append(audit(ours))
        add_batch(both, rows + (2 * number + 1) * BATCH, BATCH)
        by_dbt.append(ours.dbt("--quiet", "test"))
        after.append(peer.dbt("--quiet", "test"))
        shown = [costs[-1] for costs in (unknown, stock, audited, by_dbt, after)]
        print("unknown {}, stock {}, after a batch {}, dbt test {}, stock {}".format(*shown))
    size = f"20 tests, {rows:,} rows"
    return [
        Claim(f"{size}, nothing known", unknown, stock, bars[0], of="cpu"),
        Claim(f"{size}, after a batch", audited, after, bars[1], of="cpu"),
        Claim(f"{size}, after a batch, dbt test", by_dbt, after, bars[2], of="cpu"),
    ]


def random_keys(rows: int, runs: int) -> list[Cost]:
    """Return what it costs after a batch to know that keys at random are unique."""
    files = {name: text.format(rows=rows).lstrip() for name, text in RANDOM.items()}
    ours = our_side(ROOT / ".icegate" / "bench" / "audits" / "random", files, audits=True)
    ours.forget()
    ours.dbt("--quiet", "run")
    ours.dbt("--quiet", "compile")
    audit(ours)
    costs = []
    for number in range(runs):
        add_batch([ours], rows + number * BATCH, BATCH, "events")
        costs.append(audit(ours))
    return costs


def picture(claims: dict[int, list[Claim]], at_random: dict[int, list[Cost]], file: Path) -> None:
    """Draw CPU seconds against rows."""

    def line(name: str, found: dict[int, list[Cost]]) -> Line:
        return Line(name, [(rows, Claim.middle(costs).cpu) for rows, costs in found.items()])

    unknown, audited, by_dbt = (
        {rows: of_size[number] for rows, of_size in claims.items()} for number in range(3)
    )
    lines = [
        line("dbt test of dbt-spark", {rows: claim.peers for rows, claim in audited.items()}),
        line("icegate audit, nothing known", {rows: c.ours for rows, c in unknown.items()}),
        line("our dbt test, after a batch", {rows: c.ours for rows, c in by_dbt.items()}),
        line("icegate audit, after a batch", {rows: c.ours for rows, c in audited.items()}),
        line("one unique test, random keys", at_random),
    ]
    draw(file, "What twenty tests cost, by the size of their table", lines)


def main() -> None:
    given = options(__doc__ or "", runs=3)
    sizes = QUICK if given.quick else SIZES
    claims = {rows: compare(rows, bars, given.runs) for rows, bars in sizes.items()}
    least, most = min(sizes), max(sizes)
    at_random = {rows: random_keys(rows, given.runs) for rows in (least, most)}
    grown = f"after a batch, {least:,} rows against {most:,}"
    all_claims = [claim for of_size in claims.values() for claim in of_size]
    growing = [claims[rows][1].ours for rows in (most, least)]
    all_claims += [
        Claim(f"growing keys, {grown}", *growing, 1 / FLAT, peer=f"{least:,} rows", of="cpu"),
        Claim(
            f"random keys, {grown}",
            *(at_random[rows] for rows in (most, least)),
            1 / AT_RANDOM,
            peer=f"{least:,} rows",
            of="cpu",
        ),
    ]
    folder = RESULTS if given.quick else ROOT / "docs" / "images"
    picture(claims, at_random, folder / "audits.svg")
    finish("audits", all_claims)


if __name__ == "__main__":
    main()

"""How many statements a node costs that only ask or set (describe, show, explain, set).

What makes the table or view isn't counted: each side needs it.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter

from _bench import ROOT, Side, options, sides
from fixed_cost import SMALL, models

ASKS = {"describe", "desc", "show", "explain", "set", "use"}
STATEMENT = re.compile(r'/\* \{"app": "dbt".*?\*/\s*(\w+)\s+(\S+)', re.DOTALL)


def statements(side: Side) -> Counter[str]:
    """Run the small models and count what dbt sent, by the first two words of each statement."""
    log = side.folder / "logs" / "dbt.log"
    log.unlink(missing_ok=True)
    side.dbt(*SMALL)
    return Counter(" ".join(words).lower() for words in STATEMENT.findall(log.read_text()))


def main() -> None:
    given = options((__doc__ or "").split("\n")[0], runs=1)  # a count is the same in every run
    files = models(given.quick)
    nodes = sum(name.startswith("models/") for name in files) - 1  # without the heavy one
    pair = sides("statements", files)
    results = {}
    for run in ("first run", "second run"):
        counts = []
        for side in pair:
            if run == "first run":
                side.forget()
            found = statements(side)
            asking = sum(n for words, n in found.items() if words.split()[0] in ASKS)
            counts.append(asking / nodes)
            words = ", ".join(f"{count} {what}" for what, count in found.most_common())
            print(f"{side.name}, {run}: {found.total() / nodes:.2f} a node ({words})", flush=True)
        results[run] = {"ours": counts[0], "peer": counts[1], "met": counts[0] <= counts[1] / 2}
    path = ROOT / "benchmarks" / "results" / "statements.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(results, indent=2) + "\n")
    for run, found in results.items():
        print(
            f"statements: {run}: {found['ours']:.2f} a node that only ask or set (dbt-spark "
            f"{found['peer']:.2f}, bar half: {'met' if found['met'] else 'missed'})"
        )
    sys.exit(0 if all(found["met"] for found in results.values()) else 1)


if __name__ == "__main__":
    main()

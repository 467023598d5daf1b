"""Write the matrix of docs/targets.md from what pytest said of `test_matrix.py`.

Arguments: the file of its `--junitxml`, and the page.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from xml.etree import ElementTree

BEGIN, END = "<!-- matrix -->", "<!-- end of matrix -->"
OF_MATRIX = "test_matrix"


def cells(results: Path) -> dict[tuple[str, str], str]:
    """Return a sign for each capability and target, in the order of the tests."""
    found = {}
    for case in ElementTree.parse(results).iter("testcase"):
        name, _, target = case.get("name", "").rstrip("]").partition("[")
        if case.get("classname", "").endswith(OF_MATRIX) and target:
            is_bad = any(case.find(kind) is not None for kind in ("failure", "error", "skipped"))
            found[name.removeprefix("test_").replace("_", " "), target] = "✗" if is_bad else "✓"
    return found


def written(page: str) -> dict[tuple[str, str], str]:
    """Return the cells that a page has."""
    lines = page.partition(BEGIN)[2].partition(END)[0].strip().splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    if len(rows) < 2:
        return {}
    (_, *targets), _, *others = rows
    return {
        (name, target): sign
        for name, *signs in others
        for target, sign in zip(targets, signs, strict=True)
    }


def table(found: dict[tuple[str, str], str]) -> str:
    """Return the matrix as Markdown."""
    rows, targets = ([*dict.fromkeys(names)] for names in zip(*found, strict=True))
    lines = [f"| | {' | '.join(targets)} |", f"| --- |{' --- |' * len(targets)}"]
    for row in rows:
        signs = (found.get((row, target), "–") for target in targets)
        lines.append(f"| {row} | {' | '.join(signs)} |")
    return "\n".join(lines)


def main(results: Path, page: Path) -> None:
    """Put what a run found in the matrix; cells that it didn't try stay."""
    text = page.read_text()
    found = {**written(text), **cells(results)}
    between = re.compile(f"{BEGIN}.*?{END}", re.DOTALL)
    page.write_text(between.sub(f"{BEGIN}\n{table(found)}\n{END}", text))


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))

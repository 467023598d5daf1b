"""What deploy/Dockerfile says: its stages, their steps, and the files that Docker would be sent."""

from __future__ import annotations

import json
import re
import shlex
from fnmatch import fnmatchcase
from pathlib import Path, PurePath
from typing import NamedTuple

# Docker gives these to each stage that begins with an image.
BASE_ENV = {"PATH": "/usr/local/bin:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin"}


class Step(NamedTuple):
    """One instruction: its name, its options (``--from`` …) and all the rest of it."""

    name: str
    options: dict[str, str]
    text: str


class Stage(NamedTuple):
    """A stage: the image or stage that it begins with, its own name, and its steps."""

    base: str
    name: str
    steps: list[Step]


def read_dockerfile(path: Path) -> tuple[list[Step], list[Stage]]:
    """Return the steps before the first stage, and the stages."""
    before: list[Step] = []
    stages: list[Stage] = []
    for step in map(_step, _lines(path.read_text())):
        if step.name == "FROM":
            base, _, name = step.text.partition(" AS ")
            stages.append(Stage(base, name or str(len(stages)), []))
        else:
            (stages[-1].steps if stages else before).append(step)
    return before, stages


def _lines(text: str) -> list[str]:
    kept = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    return [line for line in "\n".join(kept).replace("\\\n", " ").splitlines() if line.strip()]


def _step(line: str) -> Step:
    name, _, rest = line.strip().partition(" ")
    options, rest = {}, rest.strip()
    while found := re.match(r"--([a-z]+)=(\S+)\s+", rest):
        options[found[1]] = found[2]
        rest = rest[found.end() :]
    return Step(name, options, rest)


def pairs(step: Step, known: dict[str, str]) -> dict[str, str]:
    """Return what an ENV step sets, with ``${NAME}`` as ``known`` has it."""
    given = dict(word.split("=", 1) for word in shlex.split(step.text))
    return {name: expand(value, known) for name, value in given.items()}


def expand(text: str, known: dict[str, str]) -> str:
    """Replace ``${NAME}``; a name that nobody set is an error."""
    return re.sub(r"\$\{(\w+)\}", lambda found: known[found[1]], text)


def words(step: Step) -> list[str]:
    """Return the arguments of a step in its JSON form, or what is between its spaces."""
    if step.text.startswith("["):
        return [str(word) for word in json.loads(step.text)]
    return shlex.split(step.text)


def context(root: Path) -> list[Path]:
    """Return the files below ``root`` that Docker would be sent, relative to it.

    As the last line of Dockerfile.dockerignore that fits a file, or a folder of it, says.
    """
    text = (root / "deploy" / "Dockerfile.dockerignore").read_text()
    rules = [line for line in text.splitlines() if line and not line.startswith("#")]
    tops = {PurePath(rule[1:]).parts[0] for rule in rules if rule.startswith("!")}
    assert rules[0] == "*", "what is sent is named; all else stays"
    found = [
        path
        for top in sorted(tops)
        for path in [root / top, *(root / top).rglob("*")]
        if path.is_file()
    ]
    return [p for p in (path.relative_to(root) for path in found) if _is_sent(p, rules)]


def _is_sent(path: Path, rules: list[str]) -> bool:
    sent = True
    for rule in rules:
        pattern = rule.removeprefix("!")
        if any(_fits(part, pattern) for part in [path, *path.parents][:-1]):
            sent = rule.startswith("!")
    return sent


def _fits(path: PurePath, pattern: str) -> bool:
    if pattern.startswith("**/"):
        return fnmatchcase(path.name, pattern[3:])
    return fnmatchcase(str(path), pattern) and len(path.parts) == len(PurePath(pattern).parts)

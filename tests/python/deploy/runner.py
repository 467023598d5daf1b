"""A GitHub runner, as far as the workflows of deploy/github/ go: it runs the steps of one job."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from conftest import ROOT

WORKFLOWS = ROOT / "deploy" / "github"


def stub_gh(folder: Path) -> None:
    """Put a `gh` there that only writes down, in `gh.log`, what it's asked for."""
    gh = folder / "gh"
    folder.mkdir(parents=True, exist_ok=True)
    gh.write_text('#!/bin/sh\necho "$@" >>gh.log\n')
    gh.chmod(0o755)


class Ran(NamedTuple):
    """What became of a job: the steps that ran, each with its exit code, and what they said."""

    codes: dict[str, int]
    text: str


class Runner:
    """A machine with a checkout; ``given`` are vars, secrets and what GitHub knows of the event."""

    def __init__(self, folder: Path, checkout: Path, given: dict[str, str]) -> None:
        self.checkout, self.given = checkout, given
        self.temp = folder / "temp"
        self.temp.mkdir(parents=True, exist_ok=True)
        self.programs = folder / "programs"
        stub_gh(self.programs)

    def run(self, file: str, job: str, but: tuple[str, ...] = ()) -> Ran:
        """Run the commands of a job, in the environment that the workflow says, but for some."""
        workflow = yaml.safe_load((WORKFLOWS / file).read_text())
        found = workflow["jobs"][job]
        env = {**workflow.get("env", {}), **found.get("env", {})}
        codes: dict[str, int] = {}
        text = ""
        for step in found["steps"]:
            if "run" not in step or step["name"] in but:
                continue
            assert step.get("if") in (None, "always()")
            if any(codes.values()) and "if" not in step:
                continue
            done = self._run(step, {**env, **step.get("env", {})})
            codes[step["name"]] = done.returncode
            text += f"== {step['name']}\n{done.stdout}{done.stderr}"
        return Ran(codes, text)

    def _run(self, step: dict[str, Any], env: dict[str, str]) -> subprocess.CompletedProcess[str]:
        added = self.temp / "path"
        added.touch()
        own = ("HOME", "LANG", "JAVA_HOME")
        environ = {name: text for name, text in os.environ.items() if name in own}
        environ |= {name: text for name, text in os.environ.items() if name.startswith("PIP_")}
        environ |= {name: self._expand(text) for name, text in env.items()}
        environ |= {
            "PATH": os.pathsep.join(
                [*added.read_text().split(), str(self.programs), os.environ["PATH"]]
            ),
            "RUNNER_TEMP": str(self.temp),
            "GITHUB_PATH": str(added),
        }
        # As GitHub runs what names no shell; pipefail belongs to `shell: bash`.
        return subprocess.run(
            ["bash", "-e", "-c", step["run"]],
            cwd=self.checkout,
            env=environ,
            capture_output=True,
            text=True,
            check=False,
        )

    def _expand(self, text: str) -> str:
        def value(found: re.Match[str]) -> str:
            name, _, default = (part.strip() for part in found[1].partition("||"))
            return self.given.get(name, "") or default.strip("'")

        return re.sub(r"\$\{\{(.+?)\}\}", value, text)

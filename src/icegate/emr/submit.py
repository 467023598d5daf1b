"""A command of dbt as a job of EMR Serverless: packed, sent, and begun."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from icegate import objects
from icegate.emr import job, pack
from icegate.errors import ConfigError
from icegate.health.reasons import size
from icegate.profiles import render

# Archives are unpacked into the job's working folder, where they can be read only.
DRIVER = {
    **{"DBT_TARGET_PATH": "/tmp/target", "DBT_LOG_PATH": "/tmp/logs"},
    "ICEGATE_HOME": "/tmp/icegate",
}
PATH = "./environment:./project:./project/python_jobs"
SAFE = re.compile(r"[\w@%+=:,./-]+")  # EMR splits what a job is given at blanks


@dataclass(frozen=True)
class Packed:
    """A project and its environment, ready to be sent, and where they go."""

    project: dict[str, Path]
    needed: list[str]
    python: pack.Python
    app: str
    say: Callable[[str], None] = field(repr=False)

    def send(self) -> str:
        """Send what isn't there yet, and return its folder, whose name tells its content."""
        entry = {"job.py": Path(job.__file__)}
        environment = pack.environment_digest(self.needed, self.python)
        version = pack.digest(self.project | entry, environment)
        folder = f"{self.app.rstrip('/')}/{version}"
        whole = f"{self.app.rstrip('/')}/environments/{environment}.tar.gz"
        if _is_there(f"{folder}/job.py"):  # written last
            self.say(f"app: {folder} (there already)")
            return folder
        with TemporaryDirectory(prefix="icegate-submit-") as made:
            if not _is_there(whole):
                self._send_environment(Path(made), whole)
            packed = Path(made) / "project.tar.gz"
            pack.write_archive(self.project, packed)
            self.say(f"project: {len(self.project)} files, {size(packed.stat().st_size)}")
            objects.copy(whole, f"{folder}/environment.tar.gz")
            objects.upload(packed, f"{folder}/project.tar.gz")
        objects.upload(entry["job.py"], f"{folder}/job.py")
        self.say(f"app: {folder}")
        return folder

    def _send_environment(self, made: Path, whole: str) -> None:
        kind = f"{len(self.needed)} packages for Python {self.python.version}"
        self.say(f"environment: {kind}, {self.python.architecture} …")
        pack.install(self.needed, self.python, made / "environment")
        packed = made / "environment.tar.gz"
        pack.write_archive(pack.below(made / "environment"), packed)
        self.say(f"environment: {size(packed.stat().st_size)}")
        objects.upload(packed, whole)


def variables(keys: dict[str, Any]) -> dict[str, str]:
    """Return the variables that a target asks for and that are set here, for the job to have.

    ``keys`` are the target's as they are written.

    Raises ``ConfigError`` for a secret, and for a value that EMR would split.
    """
    asked = set[str]()

    def env_var(name: str, default: str = "") -> str:
        asked.add(name)
        return os.environ.get(name, default)

    render(keys, typed=False, env_var=env_var)
    found = {name: os.environ[name] for name in sorted(asked - {*DRIVER}) if name in os.environ}
    if secrets := [name for name in found if name.startswith("DBT_ENV_SECRET")]:
        raise ConfigError(
            f"cannot give {secrets[0]} to a job",
            why="who may see the application reads what its jobs are given",
            fix="give --role the right instead, and leave the secret out of the target",
        )
    if odd := [name for name, value in found.items() if not SAFE.fullmatch(value)]:
        raise ConfigError(
            f"cannot give {odd[0]} to a job",
            why="its value is empty, or has a blank or a quote, at which EMR splits",
            fix="write the value into the target in profiles.yml",
        )
    return found


class Call(NamedTuple):
    """A command's words for a job, the files in ``folder`` that it has, and how Spark is begun."""

    folder: str
    args: Sequence[str]
    variables: dict[str, str]
    python: str
    conf: Sequence[str] = ()

    @property
    def of_driver(self) -> dict[str, str]:
        """The variables of the driver's process."""
        own = {"PYSPARK_DRIVER_PYTHON": self.python, "PYSPARK_PYTHON": self.python}
        return {**own, "PYTHONPATH": PATH, **self.variables}

    @property
    def of_workers(self) -> dict[str, str]:
        """The settings of Spark that give workers theirs."""
        own = {"PYSPARK_PYTHON": self.python, "PYTHONPATH": PATH}
        return {f"spark.executorEnv.{name}": text for name, text in own.items()}

    def check(self) -> None:
        """Raise ``ConfigError`` for a place, a Python or a setting with a blank in it."""
        for each in (self.folder, self.python, *self.conf):
            if not SAFE.fullmatch(each) or (each in self.conf and "=" not in each):
                raise ConfigError(
                    f"cannot give {each!r} to a job",
                    why="it's no KEY=VALUE, or has a blank or a quote, at which EMR splits",
                    fix="take another one, in --app, --python or --conf",
                )


def spark_submit(call: Call) -> dict[str, Any]:
    """Return `sparkSubmit` of a job's driver; raises ``ConfigError``."""
    call.check()
    folder, driver = call.folder, DRIVER | call.of_driver
    archives = ",".join(f"{folder}/{n}.tar.gz#{n}" for n in ("environment", "project"))
    conf = {"spark.archives": archives, **call.of_workers}
    conf |= {f"spark.emr-serverless.driverEnv.{name}": text for name, text in driver.items()}
    settings = [*call.conf, *(f"{key}={text}" for key, text in conf.items())]
    return {
        "entryPoint": f"{folder}/job.py",
        "entryPointArguments": list(call.args),
        "sparkSubmitParameters": " ".join(f"--conf {each}" for each in settings),
    }


def _is_there(location: str) -> bool:
    try:
        objects.stat(location)
    except FileNotFoundError:
        return False
    return True

"""Releases of EMR: the versions that each has, as Apache's builds of them, in an environment."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from conftest import ROOT
from environments import environment
from maven import jars_of

from icegate.landing import sha256

JOB = ROOT / "python_jobs" / "run_dbt.py"
LOGS = ROOT / "src" / "icegate" / "conf" / "log4j2.properties"
# What a job of these tests is given beside its jars.
CONF = ("--conf", "spark.ui.enabled=false", "--conf", "spark.driver.memory=1g")


@dataclass(frozen=True)
class Release:
    """A release of EMR; its own Spark is AWS's build of the same version."""

    name: str
    spark: str
    scala: str
    iceberg: str
    lock: str  # of requirements/, whose pyspark is left out for the release's

    @property
    def jars(self) -> str:
        """The jars of its Iceberg, as `--jars` has them."""
        minor = self.spark.rpartition(".")[0]
        names = (f"iceberg-spark-runtime-{minor}_{self.scala}", "iceberg-aws-bundle")
        found = (jars_of(f"{self.name}-{n}", "org.apache.iceberg", n, self.iceberg) for n in names)
        return ",".join(str(jar) for jars in found for jar in jars)

    @property
    def python(self) -> Path:
        """The Python of an environment with its pyspark, and all else as it's locked."""
        locked = (ROOT / "requirements" / self.lock).read_text().splitlines()
        kept = [line for line in locked if line[:1].isalpha() and not line.startswith("pyspark")]
        # As the sources are now; what they need is noted when they are installed.
        asked = sha256(ROOT / "pyproject.toml")
        own = f"-e {ROOT}\npyspark=={self.spark}\n# {asked}\n"
        made = environment(f"{self.name}-python", "\n".join([*kept, own]), "--no-deps")
        return made / "bin" / "python"

    @property
    def submit(self) -> Path:
        """The `spark-submit` of that environment."""
        return self.python.with_name("spark-submit")

    @property
    def home(self) -> Path:
        """The Spark of that environment, as `SPARK_HOME` has it."""
        return next(self.python.parents[1].glob("lib/python*/site-packages/pyspark"))

    def running(self, program: str) -> tuple[str, ...]:
        """Return a command that runs `dbt` or `icegate` in a job, which says what they say."""
        quiet = ("--driver-java-options", f"-Dlog4j2.configurationFile={LOGS.as_uri()}")
        options = ("--master", "local[2]", *CONF, *quiet, "--jars", self.jars)
        return (str(self.submit), *options, str(ROOT / "tests/python/targets/job.py"), program)


RELEASES = {
    "emr-spark-8.0": Release("emr-spark-8.0", "4.0.2", "2.13", "1.10.1", "lock.txt"),
    "emr-7": Release("emr-7", "3.5.6", "2.12", "1.10.0", "emr7.lock"),
}

EMR_8 = RELEASES["emr-spark-8.0"]


def environ_of(submit: Path, environ: dict[str, str]) -> dict[str, str]:
    """Return what a `spark-submit` needs of it: it asks the `python` of the path where Spark is."""
    kept = {k: v for k, v in environ.items() if not k.startswith(("SPARK_", "PYSPARK_"))}
    return kept | {"PATH": f"{submit.parent}{os.pathsep}{os.environ['PATH']}"}

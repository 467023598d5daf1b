"""What a release of EMR has: its Spark and its Iceberg, of Apache's builds."""

from __future__ import annotations

from pathlib import Path

from conftest import ROOT
from environments import environment
from maven import jars_of

from icegate.landing import sha256

# emr-spark-8.0.0 has these; its own Spark is AWS's build of the same version.
SPARK, ICEBERG = "4.0.2", "1.10.1"


def emr_jars() -> str:
    """Return the jars of EMR's Iceberg, as `--jars` has them."""
    names = ("iceberg-spark-runtime-4.0_2.13", "iceberg-aws-bundle")
    found = (jars_of(f"emr-spark-8.0-{n}", "org.apache.iceberg", n, ICEBERG) for n in names)
    return ",".join(str(jar) for jars in found for jar in jars)


def emr_environment() -> Path:
    """Return an environment with EMR's pyspark, and all else as this project locks it."""
    locked = (ROOT / "requirements" / "lock.txt").read_text().splitlines()
    kept = [line for line in locked if line[:1].isalpha() and not line.startswith("pyspark")]
    # As the sources are now; what they need is noted when they are installed.
    asked = sha256(ROOT / "pyproject.toml")
    own = f"-e {ROOT}\npyspark=={SPARK}\n# {asked}\n"
    return environment("emr-spark-8.0-python", "\n".join([*kept, own]), "--no-deps")

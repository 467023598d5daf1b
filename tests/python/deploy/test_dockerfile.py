"""deploy/Dockerfile: what it says, and what its image does when its steps are run here."""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import ROOT

from deploy.dockerfile import context, read_dockerfile, words
from deploy.image import STOP_S, Builder, Image, stop
from landing_data.generate import generate
from landing_data.plan import Plan

USER = 10001
HOME = "/var/lib/icegate"
SMALL = ("--select", "+curated_products", "--indirect-selection", "cautious")
TOOLS = ("unshare", "chroot", "apt-get", "dpkg", "ip", "hostname")


class Containers:
    """Runs containers of an image, each with the volume, and the landing files, that are here."""

    def __init__(self, image: Image, folder: Path, landing: Path, owner: int = USER) -> None:
        self.image, self.folder, self.volume = image, folder, folder / "volume"
        self.volume.mkdir(parents=True)
        os.chown(self.volume, owner, owner)
        self.mounts = {HOME: self.volume, "/srv/landing": landing}

    def start(self, *args: str) -> subprocess.Popen[str]:
        command = self.image.container([*args], self.folder, self.mounts)
        together = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        return subprocess.Popen(command, **together)

    def run(self, *args: str) -> tuple[int, str]:
        container = self.start(*args)
        said, _ = container.communicate(timeout=600)
        return container.returncode, said

    def schemas(self) -> set[str]:
        code, said = self.run("tables", "--json")
        assert code == 0, said
        return {table["namespace"] for table in json.loads(said)["tables"]}


def wait_for(container: subprocess.Popen[str], text: str) -> None:
    assert container.stdout
    said = []
    for line in container.stdout:
        said.append(line)
        if text in line:
            return
    pytest.fail(f"it ended without {text!r}: {''.join(said)[-3000:]}")


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Image]:
    if os.geteuid() != 0 or not all(map(shutil.which, TOOLS)):
        pytest.skip("root folders of Debian's can be made by root only, and with apt")
    folder = tmp_path_factory.mktemp("image")
    yield Builder(folder, {"ICEGATE_STANDINS": "1"}).build()
    shutil.rmtree(folder)  # over 4 GB


@pytest.fixture(scope="module")
def landing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("landed") / "landing"
    generate(Plan(folder, customers=100, products=40, orders=300), [], lambda path, rows: None)
    folder.chmod(0o755)
    return folder


@pytest.fixture
def containers(image: Image, landing: Path, tmp_path: Path) -> Containers:
    return Containers(image, tmp_path, landing)


def test_what_it_begins_with_is_pinned_and_what_it_runs_as_is_not_root() -> None:
    _, stages = read_dockerfile(ROOT / "deploy" / "Dockerfile")
    made = {stage.name for stage in stages}
    bases = {stage.base for stage in stages} - made
    assert bases and all(re.fullmatch(r"python:3\.11\.\d+-slim-bookworm", base) for base in bases)
    last = {step.name: step for step in stages[-1].steps}
    assert last["USER"].text == f"{USER}:{USER}"
    assert last["HEALTHCHECK"].text == "NONE"
    assert words(last["VOLUME"]) == [HOME]
    assert not any("pip " in step.text for step in stages[-1].steps)


def test_what_docker_is_sent_is_the_project_and_no_secret(tmp_path: Path) -> None:
    """Files as a working checkout has them, beside those that belong there."""
    ignored = tmp_path / "deploy" / "Dockerfile.dockerignore"
    ignored.parent.mkdir()
    shutil.copy(ROOT / "deploy" / "Dockerfile.dockerignore", ignored)
    sent = "models/a.sql tests/singular/assert_b.sql profiles.yml src/icegate/settings.py"
    kept = ".env .git/config .icegate/catalog.db landing/a.csv target/manifest.json .venv/bin/dbt"
    kept += " models/__pycache__/a.pyc tests/python/test_a.py dbt_packages/a/dbt_project.yml"
    for name in (sent + " " + kept).split():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert {str(path) for path in context(tmp_path)} == {*sent.split()}
    folders = {path.parts[0] for path in context(ROOT)}
    assert {"models", "macros", "seeds", "snapshots", "tests", "standins", "src"} <= folders


@pytest.mark.long
def test_what_is_installed_is_locked(image: Image) -> None:
    lock = (ROOT / "requirements" / "lock.txt").read_text()
    pinned = {_named(*pin) for pin in re.findall(r"^([\w.-]+)==([^\s;]+)", lock, re.MULTILINE)}
    (packages,) = image.files.glob("opt/icegate/venv/lib/python3.*/site-packages")
    folders = [path.name.removesuffix(".dist-info") for path in packages.glob("*.dist-info")]
    installed = {_named(*name.rsplit("-", 1)) for name in folders}
    assert {name for name, _ in installed - pinned} == {"icegate"}
    assert len(installed) > 50
    assert not {"pip", "uv", "pytest", "setuptools"} & {name for name, _ in installed}


def _named(name: str, version: str) -> tuple[str, str]:
    return re.sub(r"[-_.]+", "-", name).lower(), version


@pytest.mark.long
def test_its_user_can_write_to_the_volume_only(image: Image) -> None:
    writable = [
        f"/{path.relative_to(layer)}"
        for layer in image.layers[:2]
        for path in layer.rglob("*")
        if not path.is_symlink() and _may_write(path)
    ]
    assert writable == [HOME]
    unreadable = [p for p in (image.files / "opt").rglob("*") if not _may_read(p)]
    assert unreadable == []


def _may_write(path: Path) -> bool:
    found = path.stat()
    sticky = path.is_dir() and found.st_mode & stat.S_ISVTX  # as /tmp
    others = found.st_mode & stat.S_IWOTH and not sticky and not stat.S_ISCHR(found.st_mode)
    return bool(others) or USER in (found.st_uid, found.st_gid)


def _may_read(path: Path) -> bool:
    return path.is_symlink() or bool(path.stat().st_mode & stat.S_IROTH)


@pytest.mark.long
def test_nothing_of_how_it_was_made_is_in_it(image: Image) -> None:
    programs = {path.name for layer in image.layers for path in layer.rglob("bin/*")}
    assert "java" in programs and not programs & {"gcc", "cc", "uv"}
    names = {path.name for path in image.files.rglob("*")}
    assert not names & {"catalog.db", "hash_key", ".git", ".env"}
    assert not list(image.files.glob("root/.cache")) and not list(image.files.glob("tmp/*"))
    assert not list(image.files.glob("var/cache/pip"))
    assert not list(image.files.glob("opt/icegate/ivy/cache"))


@pytest.mark.long
def test_a_container_without_a_network_builds_and_publishes(containers: Containers) -> None:
    code, said = containers.run("doctor", "--json")
    found = {each["check"]: each for each in json.loads(said)["findings"]}
    assert code == 0, said
    # Stand-ins were asked for. All else is there, the class archive too.
    assert {name for name, each in found.items() if each["status"] != "ok"} == {"packages"}
    code, said = containers.run("build", *SMALL)
    assert code == 0, said[-3000:]
    assert "release 1:" in said
    assert {"bronze", "silver"} <= containers.schemas()
    assert (containers.volume / "target" / "manifest.json").is_file()
    assert (containers.volume / "ivy").is_symlink()
    code, said = containers.run(
        "dbt", "ls", "--quiet", "--resource-type", "model", "--select", "curated_products"
    )
    assert (code, said.split()) == (0, ["icegate_lakehouse.silver.commerce.curated_products"])


@pytest.mark.long
def test_docker_stop_ends_a_build_and_the_next_one_publishes(containers: Containers) -> None:
    building = containers.start("build", *SMALL)
    wait_for(building, "OK created sql incremental model bronze.raw_products")
    assert stop(building) < STOP_S
    assert building.returncode == 143
    # No release: this project's bronze isn't gated, and is there at once.
    assert not {"icegate", "silver"} & containers.schemas()
    code, said = containers.run("build", *SMALL)
    assert code == 0, said[-3000:]
    assert "release 1:" in said and "silver" in containers.schemas()


@pytest.mark.long
def test_docker_stop_ends_what_handles_no_signal(containers: Containers) -> None:
    """Such a process gets none as the first of a container: tini is."""
    waiting = containers.start(
        "python", "-c", "import time; print('on', flush=True); time.sleep(60)"
    )
    wait_for(waiting, "on")
    assert stop(waiting) < STOP_S / 2
    assert waiting.returncode == 143


@pytest.mark.long
def test_a_volume_of_someone_else_is_said(image: Image, landing: Path, tmp_path: Path) -> None:
    code, said = Containers(image, tmp_path, landing, owner=0).run("build")
    assert code == 2
    assert f"error: cannot use {HOME}" in said and f"chown {USER}" in said

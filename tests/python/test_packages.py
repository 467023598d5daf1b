"""The chooser of dbt packages, against a small hub on this machine and real `dbt deps`."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hub import VERSIONS, Hub

import packages
from icegate import dbt_process
from icegate.errors import PackagesError

REPOSITORY = Path(__file__).parents[2]
RUN_DBT = REPOSITORY / "python_jobs" / "run_dbt.py"
NO_HUB = "http://127.0.0.1:9/"  # the port `discard`, where nothing listens


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    running = Hub()
    monkeypatch.setenv("DBT_PACKAGE_HUB_URL", running.url)
    yield running
    running.stop()


@pytest.fixture
def no_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DBT_PACKAGE_HUB_URL", NO_HUB)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a project without models that has this repository's packages, stand-ins and choice."""
    monkeypatch.delenv(packages.SWITCH, raising=False)
    folder = tmp_path / "a project"
    folder.mkdir()
    ours = (REPOSITORY / "dbt_project.yml").read_text()
    start = ours.index("packages-install-path")
    choice = ours[start : ours.index("\n\n", start)]
    (folder / "dbt_project.yml").write_text(
        f"name: small\nversion: '1.0'\nprofile: icegate\n{choice}\n"
    )
    target = "{type: spark, method: session, schema: main, host: none}"
    (folder / "profiles.yml").write_text(
        f"icegate: {{target: local, outputs: {{local: {target}, prod: {target}}}}}\n"
    )
    for file in ("packages.yml", packages.LOCK):
        (folder / file).write_text((REPOSITORY / file).read_text())
    for file in (REPOSITORY / "standins").rglob("*"):
        if file.is_file():
            copy = folder / file.relative_to(REPOSITORY)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(file.read_bytes())
    return folder


def install(project: Path, **versions: str) -> None:
    for name, version in (VERSIONS | versions).items():
        folder = project / "dbt_packages" / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "dbt_project.yml").write_text(f"name: {name}\nversion: '{version}'\n")


def run_dbt(project: Path, *args: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(RUN_DBT), *args]
    return subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)


def test_our_lock_file_is_the_one_that_dbt_would_write() -> None:
    from dbt.config.project import load_yml_dict, package_config_from_data
    from dbt.task.deps import _create_sha1_hash

    wanted = load_yml_dict(str(REPOSITORY / "packages.yml"))
    locked = load_yml_dict(str(REPOSITORY / packages.LOCK))
    hashed = _create_sha1_hash(package_config_from_data(wanted, wanted).packages)
    assert locked["sha1_hash"] == hashed
    assert packages.locked_versions(REPOSITORY) == VERSIONS


def test_standins_carry_the_locked_versions() -> None:
    assert packages.versions_below(REPOSITORY / "standins") == VERSIONS


def test_installed_packages_are_used_without_the_hub(project: Path, no_hub: None) -> None:
    install(project)
    assert packages.choose_packages(project, "prod", require_real=True).standins_because == ""


@pytest.mark.parametrize("broken", ["version: 9.9.9", "version: '1.4.", ""])
def test_packages_that_are_not_the_locked_ones_are_not_installed(
    project: Path, broken: str
) -> None:
    install(project)
    (project / "dbt_packages/dbt_utils/dbt_project.yml").write_text(f"name: dbt_utils\n{broken}")
    assert not packages.are_installed(project)


def test_a_missing_package_is_not_installed(project: Path) -> None:
    install(project)
    (project / "dbt_packages/elementary/dbt_project.yml").unlink()
    assert not packages.are_installed(project)


@pytest.mark.slow
def test_the_hub_installs_once_and_is_not_needed_again(
    project: Path, hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.fields["dbt_utils"] = "1.0.0"  # a release that forgot to raise its version field
    assert packages.choose_packages(project, "local").standins_because == ""
    monkeypatch.setenv("DBT_PACKAGE_HUB_URL", NO_HUB)
    assert packages.choose_packages(project, "prod", require_real=True).versions == VERSIONS
    assert not list(project.glob(".dbt_packages-*"))
    assert run_dbt(project, "--require-real", "--", "ls").returncode == 0


@pytest.mark.slow
def test_a_wrong_version_is_replaced(project: Path, hub: Hub) -> None:
    install(project, dbt_utils="1.0.0")
    packages.choose_packages(project, "local")
    assert "1.4.1" in (project / "dbt_packages/dbt_utils/dbt_project.yml").read_text()


@pytest.mark.slow
def test_a_broken_download_leaves_the_old_folder(project: Path, hub: Hub) -> None:
    install(project, dbt_utils="1.0.0")
    hub.broken.add("elementary")
    with pytest.raises(PackagesError, match="`dbt deps` failed"):
        packages.choose_packages(project, "local")
    assert "1.0.0" in (project / "dbt_packages/dbt_utils/dbt_project.yml").read_text()
    assert not list(project.glob(".dbt_packages-*"))


def test_without_hub_and_leave_both_ways_out_are_named(project: Path, no_hub: None) -> None:
    with pytest.raises(PackagesError, match="(?s)can't be reached.*dbt deps.*ICEGATE_STANDINS=1"):
        packages.choose_packages(project, "local")


def test_the_switch_allows_standins(
    project: Path, no_hub: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(packages.SWITCH, "1")
    choice = packages.choose_packages(project, "local")
    assert choice.versions == VERSIONS
    assert choice.environment({})[packages.SWITCH] == "1"


def test_another_target_never_takes_standins(
    project: Path, no_hub: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(packages.SWITCH, "1")
    with pytest.raises(PackagesError, match="'prod' never takes stand-ins"):
        packages.choose_packages(project, "prod", standins_allowed=True)


def test_real_packages_can_be_demanded(project: Path, no_hub: None) -> None:
    done = run_dbt(project, "--require-real", "--standins-allowed", "--", "ls")
    assert done.returncode == 3
    assert "cannot get the real dbt packages" in done.stderr


def test_real_packages_switch_the_standins_off() -> None:
    assert packages.SWITCH not in packages.Choice(VERSIONS).environment({packages.SWITCH: "1"})


@pytest.mark.slow
def test_standins_are_announced_first_and_last(project: Path, no_hub: None) -> None:
    done = run_dbt(project, "--standins-allowed", "--", "parse")
    assert done.returncode == 0, done.stdout + done.stderr
    before, dbt, after = done.stdout.partition("Running with dbt")
    assert "STAND-INS ARE IN USE for dbt_utils 1.4.1, elementary 0.25.1" in before
    assert "elementary's tests DO NOT RUN" in before
    assert dbt
    assert after.rstrip().endswith("*" * 100)


@pytest.mark.slow
def test_the_exit_code_is_dbts_own(project: Path) -> None:
    install(project)
    assert run_dbt(project, "--", "ls", "--no-such-option").returncode == 2


@pytest.mark.slow
def test_a_standin_refuses_another_target_by_itself(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(packages.SWITCH, "1")
    command = [*dbt_process.DBT, "parse", "--target", "prod"]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "target 'prod' never takes them" in done.stdout


@pytest.mark.slow
def test_plain_dbt_names_both_ways_out_too(project: Path) -> None:
    profiles = project / "profiles.yml"
    target = "{type: icegate, schema: main}"
    profiles.write_text(f"icegate: {{target: local, outputs: {{local: {target}}}}}\n")
    command = [*dbt_process.DBT, "parse"]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "packages.yml names 2, and dbt_packages has 0" in done.stdout
    assert "dbt deps" in done.stdout and "ICEGATE_STANDINS=1" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("command", ["deps", "clean"])
def test_dbt_never_deletes_the_standins(
    project: Path, hub: Hub, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setenv(packages.SWITCH, "1")
    done = subprocess.run(
        [*dbt_process.DBT, command], cwd=project, capture_output=True, check=False
    )
    assert done.returncode == 0
    assert packages.versions_below(project / "standins") == VERSIONS

"""A release that was built on stand-ins for dbt packages says so, in the ledger and to people."""

from __future__ import annotations

import pytest
from shop import run_icegate

from gate.gated import GatedProject

pytestmark = pytest.mark.slow

PACKAGES = {"packages": [{"package": "somebody/observed", "version": "2.1.0"}]}


def take_standins(project: GatedProject, folder: str = "standins") -> None:
    project.configure(**{"packages-install-path": folder})
    project.write_yaml("packages.yml", PACKAGES)
    project.write_yaml(
        f"{folder}/observed/dbt_project.yml", {"name": "observed", "version": "2.1.0"}
    )


def standins(project: GatedProject) -> list[str]:
    found: list[str] = project.last_detail()["standins"]
    return found


def test_a_release_built_on_standins_is_marked(gated: GatedProject) -> None:
    gated.values("orders", 1)
    take_standins(gated)
    assert gated.dbt("build").ok
    assert standins(gated) == ["observed 2.1.0"]
    shown = run_icegate(gated.folder, "release", "show", "1")
    assert "dbt build, with stand-ins for observed 2.1.0" in shown.out, shown.err
    assert "observed 2.1.0" in run_icegate(gated.folder, "release", "list").out


def test_a_release_built_on_the_real_packages_is_not(gated: GatedProject) -> None:
    gated.values("orders", 1)
    take_standins(gated, "dbt_packages")
    assert gated.dbt("build").ok
    assert standins(gated) == []
    assert "stand-ins" not in run_icegate(gated.folder, "release", "show", "1").out


def test_publishing_a_named_build_tells_what_its_processes_took(
    gated: GatedProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ICEGATE_RELEASE", "nightly")
    gated.values("orders", 1)
    take_standins(gated)
    assert gated.dbt("run").ok
    take_standins(gated, "dbt_packages")
    assert gated.dbt("test").ok
    monkeypatch.delenv("ICEGATE_RELEASE")
    assert run_icegate(gated.folder, "release", "publish", "nightly").code == 0
    assert standins(gated) == ["observed 2.1.0"]

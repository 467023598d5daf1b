"""`icegate env` as a user runs it: what it makes, what it drops, and what it never touches."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pyarrow as pa
import pytest
from released import make
from shop import PROFILES, Ran, lake_of, run_icegate

from icegate.catalog import list_namespaces, list_relations, open_catalog
from icegate.environments import environments
from icegate.gate.store import edit

PR = """
    pr: {type: icegate, schema: "{{ env_var('ICEGATE_ENV') }}"}
    gated: {type: icegate, schema: "{{ env_var('ICEGATE_ENV') }}", gate: true}
"""


@pytest.fixture
def shop_with_state(own_shop: Path) -> Path:
    """A project with tables, a target for environments, and the manifest of its last build."""
    (own_shop / "profiles.yml").write_text(PROFILES.rstrip("\n") + PR)
    node = {"resource_type": "model", "schema": "silver", "alias": "curated_orders"}
    planned = {"resource_type": "model", "schema": "pr_9_silver", "alias": "later"}
    (own_shop / "target").mkdir()
    manifest = {"nodes": {"model.shop.a": node, "model.shop.b": planned}}
    (own_shop / "target" / "manifest.json").write_text(json.dumps(manifest))
    return own_shop


def create(folder: Path, name: str, *more: str, target: str = "pr") -> Ran:
    return run_icegate(folder, "env", "create", name, "--target", target, *more)


def add_table(folder: Path, name: str) -> None:
    catalog, rows = open_catalog(lake_of(folder)), pa.table({"id": [1]})
    catalog.create_namespace_if_not_exists(name.partition(".")[0])
    catalog.create_table(name, rows.schema).append(rows)


def test_an_environment_from_its_beginning_to_its_end(shop_with_state: Path) -> None:
    folder, lake = shop_with_state, lake_of(shop_with_state)
    before = list_relations(lake)
    ran = create(folder, "pr_12")
    state = lake.home / "environments" / "pr_12"
    assert ran.code == 0, ran.err
    assert ran.out.startswith("ICEGATE_ENV=pr_12 dbt build --target pr --select state:modified+")
    assert f"--target-path '{state / 'target'}'" in ran.out  # not over production's manifest
    assert "--defer --state" in ran.out and (state / "manifest.json").is_file()
    for name in ("pr_12_silver.curated_orders", "pr_12.seed", "pr_120_silver.other"):
        add_table(folder, name)
    (listed,) = run_icegate(folder, "env", "list", "--json").json["environments"]
    assert (listed["name"], listed["tables"]) == ("pr_12", 2)
    ran = run_icegate(folder, "env", "drop", "pr_12")
    assert ran.out == (
        "would drop pr_12: pr_12, pr_12_silver, pr_12.seed, pr_12_silver.curated_orders\n"
    )
    assert "nothing was dropped" in ran.err and "pr_12" in environments(lake)
    assert run_icegate(folder, "env", "drop", "pr_12", "--yes").code == 0
    left = [entry for entry in list_relations(lake) if entry.namespace != "pr_120_silver"]
    assert left == before and len(list_relations(lake)) == len(before) + 1
    assert not state.exists() and not (lake.warehouse / "pr_12_silver").exists()
    assert not [name for name in list_namespaces(lake) if name in ("pr_12", "pr_12_silver")]


def test_what_is_no_environments_is_never_dropped(shop_with_state: Path) -> None:
    folder, lake = shop_with_state, lake_of(shop_with_state)
    before = list_relations(lake), list_namespaces(lake)
    for name in ("silver", "main", "icegate", "pr_12"):
        ran = run_icegate(folder, "env", "drop", name, "--yes")
        assert ran.code == 2 and "so no schema is one's" in ran.err
        ran = run_icegate(folder, "env", "drop", name, "--yes", "--if-exists")
        assert (ran.code, ran.out) == (0, "nothing to drop\n")
    assert (list_relations(lake), list_namespaces(lake)) == before


def test_a_table_that_came_through_the_gate_is_never_dropped(shop_with_state: Path) -> None:
    folder, lake = shop_with_state, lake_of(shop_with_state)
    assert create(folder, "pr_12").code == 0
    make(lake, "pr_12_new.sales")
    before = list_relations(lake)
    ran = run_icegate(folder, "env", "drop", "pr_12", "--yes")
    assert ran.code == 2 and "pr_12_new.sales came through the gate" in ran.err
    ran = run_icegate(folder, "env", "expire", "--older-than", "0h", "--yes")
    assert ran.code == 2 and list_relations(lake) == before and "pr_12" in environments(lake)


@pytest.mark.parametrize(
    ("name", "target", "why"),
    [
        ("silver", "pr", "overlaps with silver"),
        ("pr_9", "pr", "overlaps with pr_9_silver"),
        ("gol", "pr", ""),
        ("icegate", "pr", "overlaps with icegate"),
        ("Pr-12", "pr", "a letter, then letters"),
        ("pr_12", "local", "its schema is 'main'"),
        ("pr_12", "gated", "would be a release among production's"),
    ],
)
def test_a_name_that_may_be_someone_elses_is_refused(
    shop_with_state: Path, name: str, target: str, why: str
) -> None:
    folder, lake = shop_with_state, lake_of(shop_with_state)
    ran = create(folder, name, target=target)
    assert ran.code == (2 if why else 0) and why in ran.err
    assert [*environments(lake)] == ([] if why else [name])


def test_one_environment_is_not_in_another(shop_with_state: Path) -> None:
    assert create(shop_with_state, "pr_1").code == 0
    assert "overlaps with pr_1\n" in create(shop_with_state, "pr_1_b").err
    assert create(shop_with_state, "pr_12").code == 0
    assert "overlaps with pr_1, pr_12, pr_9_silver" in create(shop_with_state, "pr").err
    assert create(shop_with_state, "pr_1").code == 0  # again: its state is brought up to date


def test_without_production_there_is_nothing_to_begin_with(shop_with_state: Path) -> None:
    ran = create(shop_with_state, "pr_1", "--state", "nowhere")
    assert ran.code == 2 and "cannot find what production is made of" in ran.err
    os.remove(lake_of(shop_with_state).catalog_db)
    ran = create(shop_with_state, "pr_1")
    assert ran.code == 2 and "there is no production" in ran.err


def test_old_ones_expire_and_others_stay(shop_with_state: Path) -> None:
    folder, lake = shop_with_state, lake_of(shop_with_state)
    for name in ("pr_1", "pr_2"):
        assert create(folder, name).code == 0
        add_table(folder, f"{name}_silver.t")
    edit(lake, "pr_1_silver.t", lambda old: {**old, "comment": "used"})
    ran = run_icegate(folder, "env", "expire", "--older-than", "1d", "--yes")
    assert ran.code == 0 and ran.out == "nothing to drop\n"
    ran = run_icegate(folder, "env", "expire", "--older-than", "0h", "--json")
    assert [each["name"] for each in ran.json["environments"]] == ["pr_1", "pr_2"]
    assert [*environments(lake)] == ["pr_1", "pr_2"]
    assert "write a number" in run_icegate(folder, "env", "expire", "--older-than", "soon").err


def test_files_of_a_table_that_was_renamed_stay(shop_with_state: Path) -> None:
    folder, lake = shop_with_state, lake_of(shop_with_state)
    assert create(folder, "pr_12").code == 0
    add_table(folder, "pr_12_silver.good")
    open_catalog(lake).rename_table("pr_12_silver.good", "silver.good")
    ran = run_icegate(folder, "env", "drop", "pr_12", "--yes")
    assert ran.code == 0 and "a table of another schema has its files there" in ran.err
    assert open_catalog(lake).load_table("silver.good").scan().to_arrow().num_rows == 1

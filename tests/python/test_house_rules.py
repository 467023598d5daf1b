"""Rules of the house that can be counted; CONTRIBUTING.md says why they are there."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
LAYERS = {"bronze": ("raw_",), "silver": ("curated_",), "gold": ("dim_", "fct_", "agg_")}
READS = {
    "bronze": ("raw_",),
    "silver": ("raw_", "curated_"),
    "gold": ("curated_", "dim_", "fct_", "agg_"),
}
SEEDS = {path.stem for path in (ROOT / "seeds").rglob("*.csv")}
MODELS = sorted(p for p in (ROOT / "models").rglob("*") if p.suffix in (".sql", ".py"))
MACROS = sorted((ROOT / "macros").rglob("*.sql"))
GENERIC = sorted((ROOT / "tests" / "generic").glob("*.sql"))
SINGULAR = sorted((ROOT / "tests" / "singular").glob("*.sql"))
SNAPSHOTS = sorted((ROOT / "snapshots").glob("*.sql"))
FOLDERS = sorted({path.parent for path in [*MODELS, *MACROS, *GENERIC, *SINGULAR, *SNAPSHOTS]})
MODULES = sorted(p for top in ("src", "python_jobs") for p in (ROOT / top).rglob("*.py"))

each_model = pytest.mark.parametrize("path", MODELS, ids=lambda path: path.stem)


def described(folder: Path) -> dict[str, dict[str, Any]]:
    """Return what the folder's one YAML file describes, by name."""
    (yml,) = folder.glob("*.yml")
    assert yml.name == f"_{folder.name}.yml"
    content = yaml.safe_load(yml.read_text())
    kinds = ("models", "seeds", "snapshots", "macros", "data_tests")
    return {entry["name"]: entry for kind in kinds for entry in content.get(kind, [])}


def placed_tests(entry: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for test in entry.get("data_tests", []):
        name, options = next(iter(test.items())) if isinstance(test, dict) else (test, {})
        yield name.split(".")[-1], (options or {}).get("arguments", {})


def layer_of(path: Path) -> str:
    return path.relative_to(ROOT / "models").parts[0]


def refs(path: Path) -> set[str]:
    return set(re.findall(r"""ref\(\s*['"](\w+)['"]""", path.read_text()))


@each_model
def test_model_is_small(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= 100
    assert len(refs(path)) <= 7


@each_model
def test_model_has_its_layers_name(path: Path) -> None:
    assert path.stem.startswith(LAYERS[layer_of(path)])


@each_model
def test_rows_flow_one_way(path: Path) -> None:
    wrong = [r for r in refs(path) - SEEDS if not r.startswith(READS[layer_of(path)])]
    assert not wrong, f"{layer_of(path)} reads {wrong}"
    if layer_of(path) != "bronze":
        assert "source(" not in path.read_text()


@each_model
def test_jinja_only_renders_text(path: Path) -> None:
    assert not re.search(r"run_query|execute|{%-? *for|adapter\.", path.read_text())


@each_model
def test_bronze_and_gold_name_every_column(path: Path) -> None:
    if layer_of(path) != "silver" and path.suffix == ".sql":
        selected = path.read_text().rpartition("select\n")[2].partition("\nfrom ")[0]
        assert not re.search(r"^\s*(\w+\.)?\*", selected, re.MULTILINE)


@each_model
def test_description_ends_with_the_grain(path: Path) -> None:
    assert re.search(r"One row per [^.]+\.\s*$", described(path.parent)[path.stem]["description"])


@each_model
def test_key_is_unique_and_not_null(path: Path) -> None:
    """Of bronze, which takes what comes, the key is only watched."""
    if layer_of(path) == "bronze":
        return
    entry = described(path.parent)[path.stem]
    columns = {c["name"]: {name for name, _ in placed_tests(c)} for c in entry["columns"]}
    keys = [{name} for name, tests in columns.items() if "unique" in tests]
    keys += [set(a.get("combination_of_columns", [])) for _, a in placed_tests(entry)]
    is_dated = {"metric_date"}  # an order without a possible date has no day
    assert any(key and all("not_null" in columns[c] for c in key - is_dated) for key in keys), (
        f"no key among {sorted(columns)}"
    )


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: str(folder.relative_to(ROOT)))
def test_one_yaml_describes_what_is_in_the_folder(folder: Path) -> None:
    entries = described(folder)
    prefix = "test_" if folder.name == "generic" else ""
    files = {prefix + p.stem for p in [*MODELS, *MACROS, *GENERIC, *SINGULAR, *SNAPSHOTS]
             if p.parent == folder}  # fmt: skip
    assert files == set(entries)
    assert all(entry["description"].strip() for entry in entries.values())
    for entry in entries.values():
        assert all(column.get("description") for column in entry.get("columns", []))


@pytest.mark.parametrize("path", [*MACROS, *GENERIC], ids=lambda path: path.stem)
def test_macro_is_one_small_thing(path: Path) -> None:
    text = path.read_text()
    # A materialization is the macro `materialization_<of>_<adapter>`, to dbt as well.
    materialization = r"{% materialization (\w+), adapter='(\w+)'"
    text = re.sub(materialization, r"{% macro materialization_\1_\2()", text)
    (found,) = re.findall(r"{%-? (?:macro|test) (\w+)\(([^)]*)\)", text)
    arguments = [argument for argument in found[1].split(",") if argument.strip()]
    assert found[0] == path.stem
    assert len(text.splitlines()) <= 30 and len(arguments) <= 5
    prefix = "test_" if path in GENERIC else ""
    documented = described(path.parent)[prefix + path.stem].get("arguments", [])
    assert [a.split("=")[0].strip() for a in arguments] == [a["name"] for a in documented]


@pytest.mark.parametrize("path", SINGULAR, ids=lambda path: path.stem)
def test_singular_test_is_named_after_its_rule(path: Path) -> None:
    assert path.stem.startswith("assert_")
    assert path.read_text().startswith("-- "), "say why the rule must hold"


@pytest.mark.parametrize("layer", LAYERS)
def test_layer_says_what_may_live_there(layer: str) -> None:
    assert (ROOT / "models" / layer / "README.md").is_file()


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_module_and_its_functions_are_small(path: Path) -> None:
    text = path.read_text()
    assert len(text.splitlines()) <= 300
    functions = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef)]
    long = [f.name for f in functions if (f.end_lineno or 0) - f.lineno >= 40]
    assert not long, f"over 40 lines: {long}"

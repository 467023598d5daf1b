"""What sqlfluff knows when it renders a model, besides dbt's built-ins and the macros' files."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
PROJECTS = [ROOT / "benchmarks" / "tpch_project" / "dbt_project.yml", ROOT / "dbt_project.yml"]


def var(name: str, default: Any = None) -> Any:
    """Return a variable of a project: sqlfluff's own `var` is the word `item` for all of them."""
    known = [yaml.safe_load(project.read_text())["vars"] for project in PROJECTS]
    return next((found[name] for found in known if name in found), default)


def generate_surrogate_key(field_list: list[str]) -> str:
    return f"md5({', '.join(field_list)})"


# sqlfluff loads macros without the name of their package.
dbt_utils = SimpleNamespace(generate_surrogate_key=generate_surrogate_key)
dbt = SimpleNamespace(escape_single_quotes=lambda text: text.replace("'", "\\'"))

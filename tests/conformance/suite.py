"""Finds every test class of dbt-tests-adapter, less those on a short list with reasons."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import dbt.tests.adapter

PACKAGE = "dbt.tests.adapter"

# Classes that hold no test of their own, and what stands for them.
ABSTRACT = {
    "BaseArrayUtils": "its subclasses bring the models",
    "BaseCachingTest": "its subclasses bring the models",
    "BaseConstraintsColumnsEqual": "its subclasses bring the models",
    "BaseContractSqlHeader": "its subclasses bring the models",
    "BaseDataTypeMacro": "its subclasses bring the models",
    "BaseUtils": "its subclasses bring the models",
    "StoreTestFailuresBase": "its subclasses bring the tests",
    "UDAFBase": "its subclasses bring the functions",
}
# Classes that are about one other warehouse by name.
OTHER_WAREHOUSE = {
    "BasePostgresColumnTypes": "Postgres' own column types",
    "TestPostgresCloneNotPossible": "Postgres' run of BaseCloneNotPossible",
    "BasicJSAggregateUDF": "JavaScript functions: BigQuery and Snowflake",
    "BasicJSUDF": "JavaScript functions: BigQuery and Snowflake",
    "JSAggregateUDFVolatilityIgnored": "JavaScript functions: BigQuery and Snowflake",
    "JSUDFDefaultArgSupport": "JavaScript functions: BigQuery and Snowflake",
    "JSUDFDeterministicVolatility": "JavaScript functions: BigQuery and Snowflake",
    "JSUDFMultiLineBody": "JavaScript functions: BigQuery and Snowflake",
    "JSUDFNonDeterministicVolatility": "JavaScript functions: BigQuery and Snowflake",
    "JSUDFStableVolatilityWarns": "JavaScript functions: BigQuery and Snowflake",
}
LEFT_OUT = {**ABSTRACT, **OTHER_WAREHOUSE}


def suite_classes() -> dict[str, type]:
    """Return the classes to run by name; a class with an empty body is a double of its base."""
    found: dict[str, type] = {}
    root = Path(dbt.tests.adapter.__path__[0])
    for file in sorted(root.rglob("*.py")):
        parts = file.relative_to(root).with_suffix("").parts
        module = importlib.import_module(".".join((PACKAGE, *parts)).removesuffix(".__init__"))
        for name, item in vars(module).items():
            if _holds_tests(item, module.__name__) and name not in LEFT_OUT:
                assert name not in found, f"two classes of the suite are called {name}"
                found[name] = item
    return found


def _holds_tests(item: Any, module: str) -> bool:
    return (
        isinstance(item, type)
        and item.__module__ == module
        and any(name.startswith("test") for name in dir(item))
        and any(not name.startswith("__") for name in vars(item))
    )

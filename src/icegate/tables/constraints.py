"""Constraints that the write checks itself, before its commit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from icegate.tables.state import literal, quote

NOT_NULL, CHECK = "not_null", "check"


def not_null_columns(model: dict[str, Any]) -> set[str]:
    """Return the names, in lower case, of the columns that may hold no null."""
    columns = {
        column["name"].lower()
        for column in (model.get("columns") or {}).values()
        if any(_kind(constraint) == NOT_NULL for constraint in column.get("constraints") or [])
    }
    for constraint in model.get("constraints") or []:
        if _kind(constraint) == NOT_NULL:
            columns.update(name.lower() for name in constraint.get("columns") or [])
    return columns


def checked_columns(model: dict[str, Any]) -> list[str]:
    """Return a select item for each column of the YAML; one that breaks a constraint raises."""
    never_null, name = not_null_columns(model), model["name"]
    of_model = list(_checks(model, name, ""))
    items: list[str] = []
    for column in model["columns"].values():
        quoted = quote(column["name"])
        rules = list(_checks(column, name, f" of column {column['name']}"))
        if not items:
            rules += of_model
        if column["name"].lower() in never_null:
            rules.append((f"{quoted} is null", _null_message(name, column["name"])))
        cases = " ".join(f"when {rule} then raise_error({literal(text)})" for rule, text in rules)
        items.append(f"case {cases} else {quoted} end as {quoted}" if rules else quoted)
    return items


def _checks(owner: dict[str, Any], model: str, place: str) -> Iterator[tuple[str, str]]:
    for constraint in owner.get("constraints") or []:
        expression = constraint.get("expression")
        if _kind(constraint) == CHECK and expression:
            title = f" {constraint['name']}" if constraint.get("name") else ""
            message = (
                f"a row of model {model} violates check constraint{title}{place}\n"
                f"  why: not ({expression})\n"
                "  fix: correct the row or the constraint; the table is as it was"
            )
            yield f"not ({expression})", message


def _null_message(model: str, column: str) -> str:
    return (
        f'null value in column "{column}" of model {model} violates not-null constraint\n'
        "  why: its YAML has a not_null constraint, and the model returned a null\n"
        "  fix: filter or fill the nulls, or remove the constraint; the table is as it was"
    )


def _kind(constraint: dict[str, Any]) -> str:
    kind = constraint["type"]
    return str(getattr(kind, "value", kind))

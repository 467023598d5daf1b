"""Personal data: which columns hold it, and what people may see of a value in a report."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

HIDDEN = "•••"  # always three, so that it doesn't tell how long the value is
LEAST_TO_KEEP_TWO = 6  # characters: of fewer, two would be a good part
LEAST_CARD_DIGITS = 12


def kinds(columns: Mapping[str, Any]) -> dict[str, str]:
    """Return the kind of personal data in each column that has some, by name in lower case.

    ``columns`` is that of a node in dbt's manifest. ``meta.pii`` of a column is a kind, such as
    ``email``, or ``true``, which means ``text``; ``false`` or none is a column without.
    """
    told = ((name, declared(column)) for name, column in columns.items())
    return {
        name.lower(): "text" if pii is True else str(pii).lower()
        for name, pii in told
        if pii is not None and pii is not False
    }


def declared(column: Mapping[str, Any]) -> Any:
    """Return ``meta.pii`` of a column as it stands there; ``None`` where it says nothing."""
    return meta_of(column).get("pii")


def meta_of(described: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``meta`` of a node, source, exposure or column in dbt's manifest."""
    of_config = (described.get("config") or {}).get("meta") or {}
    return {**(described.get("meta") or {}), **of_config}


def of_table(manifest: Mapping[str, Any], table: str) -> dict[str, str]:
    """Return the kind of personal data in each column of `schema.table` that has some.

    ``manifest`` is dbt's. A quarantine has the columns of its model. In a table that no node has,
    like one that isn't published yet, a column counts where its name does in any node.
    """
    written = ("model", "seed", "snapshot")
    tables = [n for n in manifest["nodes"].values() if n["resource_type"] in written]
    nodes = {f"{n['schema']}.{n.get('alias')}": kinds(n["columns"]) for n in tables}
    anywhere = {name: kind for found in nodes.values() for name, kind in found.items()}
    return nodes.get(table.removesuffix("__quarantine"), anywhere)


def masked(value: Any, kind: str) -> Any:
    """Return what people may see of a value: too little to find the value, or its length, by it.

    A null stays null and blank text stays empty, since that is why many a row fails. A value that
    isn't of the form of its kind, and every value of a kind that isn't known, is hidden as a whole.
    """
    if value is None:
        return None
    text = str(value).strip()
    return FORMS.get(kind, _hide)(text) if text else ""


def masked_sql(value: str, kind: str) -> str:
    """Return SQL that shows of a value at most what ``masked`` does.

    It is text, whatever the value is: null stays null, an id shows its end, and all else is hidden.
    """
    text = f"trim(string({value}))"
    is_id = f"when {text} rlike '^[0-9A-Za-z_-]{{{LEAST_TO_KEEP_TWO},}}$' "
    end = f"{is_id}then concat('{HIDDEN}', right({text}, 2)) " if kind == "id" else ""
    return f"case when {value} is null then null when {text} = '' then '' {end}else '{HIDDEN}' end"


def _hide(text: str) -> str:
    return HIDDEN


def _email(text: str) -> str:
    # Without the domain: that of a small firm or a family names the person.
    found = re.fullmatch(r"(\w)[^@\s]*@[^@\s]+(\.[A-Za-z]{2,10})", text)
    return f"{found[1]}{HIDDEN}@{HIDDEN}{found[2]}" if found else HIDDEN


def _name(text: str) -> str:
    return f"{text[0]}{HIDDEN}" if text[0].isalpha() else HIDDEN


def _last(digits: int, of_at_least: int) -> Callable[[str], str]:
    def keep(text: str) -> str:
        found = re.sub(r"[^0-9]", "", text)
        is_number = re.fullmatch(r"[0-9 ()+./x-]+", text) and len(found) >= of_at_least
        return f"{HIDDEN}{found[-digits:]}" if is_number else HIDDEN

    return keep


def _id(text: str) -> str:
    # Enough to tell the rows of a sample apart.
    is_long = re.fullmatch(rf"[\w-]{{{LEAST_TO_KEEP_TWO},}}", text)
    return f"{HIDDEN}{text[-2:]}" if is_long else HIDDEN


def _birthday(text: str) -> str:
    found = re.match(r"([0-9]{4})-[0-9]{2}-[0-9]{2}\b", text)
    return f"{found[1]}-{HIDDEN}" if found else HIDDEN


FORMS: dict[str, Callable[[str], str]] = {
    "email": _email,
    "phone": _last(2, LEAST_TO_KEEP_TWO),
    "card": _last(4, LEAST_CARD_DIGITS),
    "name": _name,
    "id": _id,
    "birthday": _birthday,
}

"""The CloudFormation templates of deploy/aws/, as data."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from conftest import ROOT

FOLDER = ROOT / "deploy" / "aws"
# In the order in which they are deployed: each names stacks before it.
NAMES = ("lake", "network", "serverless", "cluster", "daily")


class _Loader(yaml.SafeLoader):
    """YAML with the short forms of CloudFormation's functions."""


def _function(loader: yaml.SafeLoader, tag: str, node: yaml.Node) -> dict[str, Any]:
    if isinstance(node, yaml.ScalarNode):
        value: Any = loader.construct_scalar(node)
    elif isinstance(node, yaml.SequenceNode):
        value = loader.construct_sequence(node, deep=True)
    else:
        assert isinstance(node, yaml.MappingNode)
        value = loader.construct_mapping(node, deep=True)
    if tag == "GetAtt":
        value = value.split(".", 1)
    return {tag if tag in ("Ref", "Condition") else f"Fn::{tag}": value}


_Loader.add_multi_constructor("!", _function)


def path(name: str) -> Path:
    return FOLDER / f"{name}.yml"


def read(name: str) -> dict[str, Any]:
    """Return a template with its functions in their long form."""
    return yaml.load(path(name).read_text(), _Loader)


def resources(*types: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the resources of some types, each with the name of its template and its own."""
    for name in NAMES:
        for logical, resource in read(name)["Resources"].items():
            if not types or resource["Type"] in types:
                yield f"{name}.{logical}", resource


def statements(value: Any, at: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every statement of every policy below a value, wherever it is."""
    if isinstance(value, dict):
        if "Effect" in value:
            yield f"{at}.{value.get('Sid', '')}", value
        for inner in value.values():
            yield from statements(inner, at)
    elif isinstance(value, list):
        for inner in value:
            yield from statements(inner, at)


def words(value: Any) -> list[Any]:
    """Return one or many as many."""
    return value if isinstance(value, list) else [value]


def text(value: Any) -> str:
    """Return a value as text, for looking into it."""
    return json.dumps(value)


def without(template: dict[str, Any], types: set[str], known: dict[str, str]) -> dict[str, Any]:
    """Return a template without resources of some types; what refers to them gets what is known."""
    gone = {name for name, found in template["Resources"].items() if found["Type"] in types}

    def kept(value: Any) -> Any:
        if isinstance(value, list):
            return [kept(inner) for inner in value]
        if not isinstance(value, dict):
            return value
        if value.get("Ref") in gone:
            return known[value["Ref"]]
        if "Fn::GetAtt" in value and value["Fn::GetAtt"][0] in gone:
            return known[".".join(value["Fn::GetAtt"])]
        return {key: kept(inner) for key, inner in value.items()}

    left = {name: found for name, found in template["Resources"].items() if name not in gone}
    return kept({**template, "Resources": left})

"""Every test class of dbt-tests-adapter, on Iceberg; `overrides.py` lists what is replaced."""

from __future__ import annotations

import inspect

import overrides
from suite import suite_classes

REPLACED = {
    name: item
    for name, item in inspect.getmembers(overrides, inspect.isclass)
    if item.__module__ == "overrides" and not name.startswith("_")
}
TESTS = [(name, test) for name, item in REPLACED.items() for test in dir(item) if "test" in test]
assert not TESTS, f"an override may not replace a test: {TESTS}"

for name, original in suite_classes().items():
    bases = (REPLACED.pop(name), original) if name in REPLACED else (original,)
    globals()[f"Test{name.removeprefix('Test').removeprefix('Base')}"] = type(
        name, bases, {"__module__": __name__, "__doc__": original.__doc__}
    )
assert not REPLACED, f"overrides of classes that the suite doesn't have: {', '.join(REPLACED)}"
del original

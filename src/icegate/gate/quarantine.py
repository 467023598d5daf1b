"""Quarantine: rows that fail a model's own tests are split off while the model is written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from icegate.errors import ConfigError, GateError, did_you_mean
from icegate.gate import refs
from icegate.tables.merge_plan import as_list
from icegate.tables.schema import same_columns
from icegate.tables.state import literal, quote

INF = float("inf")
SUFFIX = "__quarantine"
FAILED = "icegate_failed"  # beside each row while it's held: the tests that it fails, and why
# What a quarantine has beside the model's columns, and where a row has it from.
OWN = {
    "icegate_test": ("string", f"{FAILED}[0].test"),
    "icegate_reason": ("string", f"array_join({FAILED}.reason, '; ')"),
    "icegate_release": ("string", ""),
    "icegate_batch": ("string", ""),
    "icegate_at": ("timestamp", "current_timestamp()"),
    # The builds that, if they were published, put the row into its table or wrote a newer one.
    "icegate_returned_by": ("string", "null"),
    "icegate_outdated_by": ("string", "null"),
}
# These judge each row on its own; by package, since a project may mean something else by a name.
PACKAGES = {
    "not_null": "dbt",
    "accepted_values": "dbt",
    "accepted_range": "dbt_utils",
    "expression_is_true": "dbt_utils",
}
# What the share of bad rows in one write may be, and their number, where no config says it; the
# most that a config may say.
LIMITS = {"quarantine_max_share": (0.1, 1.0), "quarantine_max_rows": (INF, INF)}
USUAL = {"severity": "error", "error_if": "!=0", "warn_if": "!=0", "fail_calc": "count(*)"}

Columns = Sequence[tuple[str, str]]  # names and types


class Rule(NamedTuple):
    """A condition on which a test refuses a row, and the same for people."""

    test: str
    reason: str
    condition: str


@dataclass(frozen=True)
class Wanted:
    """The configs of a model: types of tests, and how much they may split off of one write."""

    model: str
    types: list[str]
    limits: dict[str, float]

    @classmethod
    def of(cls, model: str, config: Mapping[str, Any]) -> Wanted:
        """Read the configs or raise ``ConfigError``."""
        given, limits = config.get("quarantine"), {}
        types = [*PACKAGES] if given is True else as_list(given or None)
        for kind in types:
            if kind not in PACKAGES:
                raise ConfigError(
                    f"unknown test {kind!r} in `quarantine` of model {model}",
                    why=f"it takes {', '.join(PACKAGES)}: they judge each row on its own",
                    fix=did_you_mean(str(kind), PACKAGES, "leave it out: the gate still holds it"),
                )
        for key, (usual, most) in LIMITS.items():
            limits[key] = value = usual if config.get(key) is None else config[key]
            if not isinstance(value, int | float) or not 0 <= value <= most:
                raise ConfigError(
                    f"cannot use {key} {value!r} of model {model}",
                    why=f"it's a number from 0{' to 1' if most == 1 else ' on'}",
                    fix="correct it",
                )
        return cls(model, types, limits)

    def check(
        self, bad: int, total: int, by_test: Mapping[str, int], table: str, release: str
    ) -> None:
        """Raise where more rows were split off, and put into ``table``, than may be."""
        found = {"quarantine_max_share": bad / max(total, 1), "quarantine_max_rows": bad}
        over = [f"{key} is {limit:g}" for key, limit in self.limits.items() if found[key] > limit]
        if over:
            tests = (f"{test}: {count:,}" for test, count in by_test.items() if count)
            raise GateError(
                f"model {self.model} is held back: {bad:,} of its {total:,} rows fail its tests",
                why=f"{' and '.join(over)}; {', '.join(tests)}",
                fix=f"look at them: `select * from {table} where icegate_release = '{release}'`; "
                "repair their source or the model, or allow for more",
            )


def kind_of(test: str, macros: Iterable[str]) -> str:
    """Return the type of a test by its name and the macros that it uses; else nothing."""
    return test if f"macro.{PACKAGES.get(test)}.test_{test}" in macros else ""


def fails_by_one_row(config: Mapping[str, Any]) -> bool:
    """Tell whether a single row fails a test: one that only warns wants its rows in the table."""
    return all(
        str(config.get(key) or usual).lower().replace(" ", "") == usual
        for key, usual in USUAL.items()
    )


def rules_of(test: str, kind: str, kwargs: Mapping[str, Any], where: str | None) -> Iterator[Rule]:
    """Yield on what a test refuses a row: word for word the conditions of the test's own SQL."""
    for condition in _conditions(kind, kwargs):
        # `where` decides first: the condition may raise for rows that it leaves out.
        yield Rule(test, condition, f"if(({where}), ({condition}), false)" if where else condition)


def _conditions(kind: str, kwargs: Mapping[str, Any]) -> Iterator[str]:
    column = kwargs.get("column_name") or ""
    if kind == "not_null":
        yield f"{column} is null"
    elif kind == "accepted_values":
        form = "'{}'" if kwargs.get("quote", True) else "{}"
        yield f"{column} not in ({', '.join(form.format(value) for value in kwargs['values'])})"
    elif kind == "expression_is_true":
        yield f"not({column}{' ' * bool(column)}{kwargs['expression']})"
    else:
        equal = "=" if kwargs.get("inclusive", True) else ""
        for key, sign in (("min_value", ">"), ("max_value", "<")):
            if kwargs.get(key) is not None:
                yield f"not {column} {sign}{equal} {kwargs[key]}"


def marked(select_sql: str, alias: str, rules: Iterable[Rule]) -> str:
    """Return the select with a column of the rules that each row breaks."""
    failed = ",\n".join(
        f"if({rule.condition}, named_struct('test', {literal(rule.test)}, "
        f"'reason', {literal(rule.reason)}), null)"
        for rule in rules
    )
    return (
        f"select *, array_compact(array(\n{failed}\n)) as {FAILED}\n"
        f"from (\n{select_sql}\n) as {quote(alias)}"
    )


def counting(view: str, tests: Iterable[str]) -> str:
    """Return what counts all rows, those that fail, and those that fail each of the tests."""
    each = (f", count_if(array_contains({FAILED}.test, {literal(test)}))" for test in tests)
    return f"select count(*), count_if(size({FAILED}) > 0){''.join(each)} from {view}"


def good_rows(view: str, columns: Columns, bad: int, total: int) -> str:
    """Return the select of the rows that pass."""
    # Told literally that there are none, an append does nothing.
    rest = "where false" if bad == total else f"where size({FAILED}) = 0" if bad else ""
    return f"select {', '.join(quote(name) for name, _ in columns)} from {view} {rest}"


def batch_of(model: Mapping[str, Any], metadata: refs.Metadata, branch: str) -> str:
    """Return what of its build a write repeats: a batch, or without one all.

    A batch that came through moved the table, and its bad rows won't be read again.
    """
    if model.get("batch"):
        return str(model["batch"]["id"])
    return str(refs.head(metadata, branch) or refs.head(metadata) or "")


def filling(table: str, now: Columns, view: str, columns: Columns, release: str, batch: str) -> str:
    """Return what puts failing rows into a quarantine, in place of an earlier attempt's.

    ``now`` are its columns, ``columns`` the model's.
    """
    items = {name: text for name, (_, text) in OWN.items()}
    items |= {"icegate_release": literal(release), "icegate_batch": literal(batch)}
    items |= {name.lower(): quote(name) for name, _ in columns}
    listed = ", ".join(items.get(name.lower(), "null") for name, _ in now)
    of_batch = f" and icegate_batch = {literal(batch)}" if batch else ""
    return (
        f"insert into {table} replace where icegate_release = {literal(release)}{of_batch}\n"
        f"select {listed} from {view} where size({FAILED}) > 0"
    )


def shaping(table: str, now: Columns, columns: Columns, release: str) -> list[str]:
    """Return what makes a quarantine, or gives it the columns that its model has by now.

    A column whose type changed goes on under another name: evidence stays what it was.
    """
    there = {name.lower(): (name, kind) for name, kind in now}
    taken = OWN.keys() & {name.lower() for name, _ in columns}
    if taken or (there and not OWN.keys() <= there.keys()):
        raise ConfigError(
            f"cannot keep rows in quarantine in {table}",
            why=f"its model has a column {min(taken)}, too" if taken else "it's another table",
            fix="rename one of the two",
        )
    if not there:
        own = ((name, kind) for name, (kind, _) in OWN.items())
        # `replace where` takes whole partitions only; in a newer format PyIceberg can't delete.
        return [
            f"create table if not exists {table} ({_ddl([*columns, *own])}) using iceberg "
            "partitioned by (icegate_release, icegate_batch) tblproperties ('format-version' = '2')"
        ]
    new = [c for c in columns if not same_columns([c], [there.get(c[0].lower(), ("", ""))])]
    old = [there[name.lower()][0] for name, _ in new if name.lower() in there]
    alter = f"alter table {table}"
    renamed = [f"{alter} rename column {quote(n)} to {quote(f'{n}_until_{release}')}" for n in old]
    return [*renamed, f"{alter} add columns ({_ddl(new)})"] if new else []


def _ddl(columns: Columns) -> str:
    return ", ".join(f"{quote(name)} {kind}" for name, kind in columns)

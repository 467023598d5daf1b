"""Tables with all that can go wrong in a proof, and tests of them, drawn at random."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from icegate.audits.scan import DuckDB

PREFIX = "longer than the sixteen characters of a bound: "
# What rows have, and what conditions name, by column.
VALUES = {
    "id": ["0", "1", "2", "3", "9223372036854775807", "-5", "null"],
    "i": ["0", "1", "-1", "7", "2147483647", "-2147483648", "null"],
    "s": [
        *("''", "'a'", "'B'", "' a'", "'ä'", "'zß€𝄞'", f"'{PREFIX}a'", f"'{PREFIX}𝄞'", "null"),
        *("'it''s'", r"'\%'", r"'o\pen'"),
    ],
    "d": ["0.00", "1.50", "-1.50", "99999999.99", "0.01", "null"],
    "w": ["0.000", "1.5", "-1.505", "123456789012345678901.125", "null"],
    "f": ["0D", "-0D", "1.5D", "double('NaN')", "double('inf')", "double('-inf')", "null"],
    "dt": [*(f"date '{day}'" for day in ("1969-12-31", "0001-01-01", "9999-12-31")), "null"],
    "b": ["true", "false", "null"],
    "ts": ["timestamp '2026-01-01 00:00:00.123456'", "timestamp '1960-01-01 00:00:00'", "null"],
}
LITERALS = {
    **VALUES,
    "i": ["0", "1", "0.5", "-7", "3000000000"],
    "s": [*VALUES["s"], f"'{PREFIX}b'"],
    "d": ["0", "1.5", "1.505", "-1.50", "100000000"],
    "w": ["0", "1.5", "-1.505", "0.00001", "123456789012345678", "0.000000000000001"],
    "f": ["0", "1.5", "-3", "0.1"],
}
TYPES = {
    "id": "bigint",
    "i": "int",
    "s": "string",
    "d": "decimal(10, 2)",
    "w": "decimal(24, 3)",
    "f": "double",
    "dt": "date",
    "b": "boolean",
    "ts": "timestamp",
}
SPECS = ["b", "bucket(3, id)", "truncate(2, s)", "i", "days(ts)", "dt", "d"]
METRICS = ["none", "counts", "full", "truncate(4)"]
DBT = """
select
    {calc} as failures,
    {calc} {warn_if} as should_warn,
    {calc} {error_if} as should_error
from (
{sql}
) dbt_internal_test
"""


def question(sql: str, calc: str = "count(*)", error_if: str = "!= 0") -> str:
    """Return what dbt asks of a test's failing rows."""
    return DBT.format(sql=sql, calc=calc, warn_if="!= 0", error_if=error_if)


def noted(monkeypatch: Any, name: str, told: Callable[[Any], Any] = lambda found: found) -> Any:
    """Return a list that gets what is told of each result of a method of ``DuckDB``."""
    method, results = getattr(DuckDB, name), list[Any]()

    def run(self: DuckDB, *args: Any) -> Any:
        found = method(self, *args)
        results.append(told(found))
        return found

    monkeypatch.setattr(DuckDB, name, run)
    return results


class Table:
    """A table of Iceberg with a past: several snapshots, deletes, other columns and partitions."""

    def __init__(self, random: Random, spark: Any, name: str) -> None:
        self.random, self.spark, self.name = random, spark, name
        self.columns = {column: column for column in TYPES}  # as `VALUES` has it -> its name now
        version = random.choice([1, 2, 2, 2, 3])
        properties = {"format-version": str(version)}
        if version > 1:
            properties |= dict.fromkeys(("write.delete.mode", "write.update.mode"), "merge-on-read")
        if random.random() < 0.2:
            properties["write.metadata.metrics.default"] = random.choice(METRICS)
        listed = ", ".join(f"'{key}' = '{value}'" for key, value in properties.items())
        columns = ", ".join(f"{column} {kind}" for column, kind in TYPES.items())
        spec = random.choice(["", *(f"partitioned by ({spec})" for spec in SPECS)])
        spark.sql(f"create table {name} ({columns}) using iceberg {spec} tblproperties ({listed})")
        for _ in range(random.randint(0, 4)):
            self.change()

    def change(self) -> None:
        """Take a step: most add rows, others delete or change some, or the columns."""
        steps = [self.insert] * 6 + [self.delete, self.delete, self.update, self.overwrite]
        steps += [self.rename, self.drop, self.widen, self.partition, self.roll_back]
        with suppress(PySparkException, Py4JJavaError):  # a step that makes no sense now
            self.random.choice(steps)()

    def roll_back(self) -> None:
        snapshots = self.spark.sql(f"select snapshot_id from {self.name}.history").collect()
        chosen = self.random.choice(snapshots)[0] if snapshots else 0
        self.spark.sql(f"call system.rollback_to_snapshot('{self.name}', {chosen})")

    def insert(self, verb: str = "insert into") -> None:
        names = ", ".join(self.columns.values())
        chosen = [self._some(VALUES[column]) for column in self.columns]
        rows = (
            f"({', '.join(map(self.random.choice, chosen))})"
            for _ in range(self.random.randint(1, 6))
        )
        self.spark.sql(f"{verb} {self.name} ({names}) values {', '.join(rows)}")

    def overwrite(self) -> None:
        self.insert("insert overwrite")

    def delete(self) -> None:
        self.spark.sql(f"delete from {self.name} where {self.condition()}")

    def update(self) -> None:
        column = self.random.choice([*self.columns])
        value = self.random.choice(VALUES[column])
        change = f"set {self.columns[column]} = {value} where {self.condition()}"
        self.spark.sql(f"update {self.name} {change}")

    def rename(self) -> None:
        column = self.random.choice([*self.columns])
        new = f"{self.columns[column]}_x"
        self.spark.sql(f"alter table {self.name} rename column {self.columns[column]} to {new}")
        self.columns[column] = new

    def drop(self) -> None:
        column = self.random.choice([c for c in self.columns if c != "id"])
        self.spark.sql(f"alter table {self.name} drop column {self.columns.pop(column)}")
        if self.random.random() < 0.5:  # another one of the same name
            self.spark.sql(f"alter table {self.name} add column {column} {TYPES[column]}")
            self.columns[column] = column

    def widen(self) -> None:
        column = self.columns.get("i", "i")  # which may be gone
        self.spark.sql(f"alter table {self.name} alter column {column} type bigint")

    def partition(self) -> None:
        field = f"bucket(2, {self.columns['id']})"
        self.spark.sql(f"alter table {self.name} add partition field {field}")

    def condition(self, depth: int = 0) -> str:
        """Return a condition on the table's columns."""
        draw = self.random.random()
        if depth > 2 or draw < 0.45:
            return self._comparison()
        inner = self.condition(depth + 1)
        if draw < 0.7:
            return f"not ({inner})"
        return f"({inner}) {self.random.choice(['and', 'or'])} ({self.condition(depth + 1)})"

    def _comparison(self) -> str:
        column = self.random.choice([*self.columns])
        name, other = self.columns[column], self.random.choice([*self.columns.values()])
        known = [text for text in LITERALS[column] if "double(" not in text]
        one, two, three = (self.random.choice(known) for _ in range(3))
        sign = self.random.choice(["=", "!=", "<", "<=", ">", ">=", "<=>"])
        no = self.random.choice(["", "not "])
        forms = [f"{name} is {no}null"] * 3 + [f"{name} {sign} {one}"] * 4
        forms += [f"{one} {sign} {name}", f"{name} {no}in ({one}, {two}, {three})"]
        forms += [f"{name} {no}between {one} and {two}", f"{name} {sign} {other}"]
        forms += ["1 = 2", "false", f"coalesce({name}, {one}) {sign} {two}"]
        math = self.random.choice(["+", "-", "*"])
        forms += [f"{name} {math} {other} {sign} {one}", f"{one} {math} {name} {sign} {other}"]
        return self.random.choice(forms)

    def _some(self, values: list[str]) -> list[str]:
        return self.random.sample(values, self.random.randint(1, len(values)))

    def test_of(self, other: Table) -> str:
        """Return the query of a test of this table, which may read another one."""
        draw, name = self.random.choice, self.random.choice([*self.columns.values()])
        column = next(c for c, now in self.columns.items() if now == name)
        where = f"(select * from {self.name} where {self.condition()}) dbt_subquery"
        source = draw([self.name, where])
        values = ", ".join(v for v in self._some(LITERALS[column]) if "double(" not in v) or "null"
        parent, second = draw([*other.columns.values()]), draw([*self.columns.values()])
        sql = draw(
            [
                f"select {name} from {source} where {name} is null",
                f"select {name} as unique_field, count(*) as n_records from {source} "
                f"where {name} is not null group by {name} having count(*) > 1",
                f"with all_values as (select {name} as value_field, count(*) as n_records "
                f"from {source} group by {name}) "
                f"select * from all_values where value_field not in ({values})",
                f"with child as (select {name} as from_field from {source} "
                f"where {name} is not null), "
                f"parent as (select {parent} as to_field from {other.name}) "
                "select from_field from child left join parent "
                "on child.from_field = parent.to_field where parent.to_field is null",
                f"with meet_condition as (select * from {source}), "
                "validation_errors as ("
                f"select * from meet_condition where 1 = 2 or {self.condition()}) "
                "select * from validation_errors",
                f"select * from {source} where not({self.condition()})",
                f"with v as (select {name}, {second} as c2 from {source} group by {name}, {second} "
                "having count(*) > 1) select * from v",
                f"select count(*) as n, count(distinct {name}) as m, min({name}) as low "
                f"from {source} having count(*) = {self.random.randint(0, 5)}",
                f"select {name} from {source} where {self.condition()} union all "
                f"select {name} from {self.name} where {self.condition()}",
            ]
        )
        sql += draw(["", "", "", f" limit {self.random.randint(1, 3)}"])
        calc = draw(["count(*)"] * 8 + ["count(*) * 2", "coalesce(sum(1), 0)"])
        warn_if, error_if = draw(["!= 0", "> 2"]), draw(["!= 0", "> 10", "= 3"])
        return DBT.format(sql=sql, calc=calc, warn_if=warn_if, error_if=error_if)

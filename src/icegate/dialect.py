"""Say in DuckDB's SQL what a query says in Spark's, or refuse where the two may differ.

A quick answer must not be another answer. A function is translated only when it's known to agree:
the tests run each of them on both engines.
"""

from __future__ import annotations

from collections.abc import Iterator

import sqlglot
from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.tokens import TokenType

from icegate.errors import IcegateError


class Spark4(Spark):
    """Spark's SQL since 4.0, where a quote that is doubled is one: `'it''s'`."""

    class Tokenizer(Spark.Tokenizer):
        """What sqlglot reads otherwise, as two strings."""

        STRING_ESCAPES = ["'", '"', "\\"]


SPARK = "spark4"
ON_SPARK = "run it on Spark, which takes some seconds to start: add `--spark`"

AGREEING = frozenset(
    """
    abs addmonths and anyvalue approxdistinct argmax argmin array arrayagg arraycontains
    arrayfilter arraymax arraymin arraysize arraytostring arrayuniqueagg ascii avg case ceil
    coalesce concat concatws contains corr count countif covarpop cumedist currentdate datediff day
    dayofmonth dayofyear degrees denserank endswith exp explode firstvalue floor greatest
    groupconcat hour if initcap lag lastday lastvalue lead least left length levenshtein ln log
    logicaland logicalor lower make_date max md5 median min minute month nextday nthvalue ntile
    nullif nvl2 or pad percentrank pow quarter rank regexpextract regexplike regexpsplit repeat
    replace reverse right round rownumber safedivide second sha2 sign sin splitpart sqrt startswith
    stddev stddevpop stddevsamp strposition struct sum timestamptrunc timestrtotime timetostr
    transform translate trim tsordsadd tsordstodate unixdate unixtostr upper variance variancepop
    weekofyear year
    """.split()
)
# Functions that say something else each time, and those of them that need no parentheses.
VOLATILE = frozenset(
    """
    current_date current_timestamp current_time localtimestamp now curdate unix_timestamp
    current_user user session_user rand random randn randstr uniform uuid shuffle
    monotonically_increasing_id spark_partition_id input_file_name input_file_block_start
    input_file_block_length current_database current_schema current_catalog version
    """.split()
)
BARE = frozenset("current_date current_timestamp current_time localtimestamp current_user".split())
# Integers: DuckDB rounds where Spark cuts off. Text: times and floats are written differently.
CASTS_THAT_DIFFER = (*exp.DataType.INTEGER_TYPES, *exp.DataType.TEXT_TYPES)


def dialect_of(sql: str) -> str:
    """Return the dialect in which the PySpark of this process reads a query.

    Spark 3.5 reads a quote that is doubled as the end of a text, and the beginning of the next.
    """
    if "''" in sql or '""' in sql:
        import pyspark  # which takes 0.3 s

        if pyspark.__version__.startswith("3."):
            return "spark"
    return SPARK


def to_duckdb(tree: exp.Expr, limit: int) -> str:
    """Return the query in DuckDB's SQL, cut off after ``limit`` rows unless that is 0."""
    differing = next(_differing(tree), None)
    if differing is not None:
        said = differing.sql(dialect=SPARK)
        raise not_by_duckdb(f"`{said}` may mean something else there than in Spark")
    query = tree.transform(_keep_dates)
    if limit and isinstance(query, exp.Query) and not query.args.get("limit"):
        query = query.limit(limit)
    try:
        return query.sql("duckdb", copy=False, unsupported_level=sqlglot.ErrorLevel.RAISE)
    except sqlglot.errors.UnsupportedError as error:
        raise not_by_duckdb(str(error)) from error


def not_by_duckdb(why: str, what: str = "run the query") -> IcegateError:
    """Make the error for what only Spark can do."""
    return IcegateError(f"cannot {what} by DuckDB", why=why, fix=ON_SPARK)


def volatile(sql: str) -> str | None:
    """Return a function in SQL that says something else each time, if there is one."""
    tokens = sqlglot.tokenize(sql, dialect=SPARK)
    called = [token.token_type == TokenType.L_PAREN for token in tokens[1:]]
    for token, is_called in zip(tokens, [*called, False], strict=True):
        name = token.text.lower()
        is_name = token.token_type not in (TokenType.STRING, TokenType.IDENTIFIER)
        if is_name and name in VOLATILE and (is_called or name in BARE):
            return name
    return None


def moving_read(tree: exp.Expr) -> str | None:
    """Return what a query reads that the snapshots of its tables don't tell, if there is such.

    A sample is another one each time, and a branch, a tag or a time may lead elsewhere tomorrow.
    """
    sample = tree.find(exp.TableSample)
    if sample is not None:
        return sample.sql(SPARK)
    for version in tree.find_all(exp.Version):
        of = version.expression
        is_snapshot = isinstance(of, exp.Literal) and not of.is_string
        if not is_snapshot or version.name.upper() != "VERSION":
            return version.sql(SPARK)
    return None


def tables_in(tree: exp.Expr) -> Iterator[exp.Table]:
    """Yield what a query reads by name: no CTE, and no function of values that are in the query."""
    defined = {cte.alias.lower() for cte in tree.find_all(exp.CTE)}
    for table in tree.find_all(exp.Table):
        is_cte = not table.db and table.name.lower() in defined
        is_of_values = isinstance(table.this, exp.Func) and not other_functions(table)
        if not is_cte and not is_of_values:
            yield table


def table_names(tree: exp.Expr, catalog: str) -> set[str]:
    """Return what a query reads, as `schema.name`, or `catalog.schema.name` of another catalog."""
    named = (".".join(part.name for part in table.parts) for table in tables_in(tree))
    return {name.removeprefix(f"{catalog}.") for name in named}


def name_in(table: exp.Table) -> str:
    """Return `schema.table` of a table in a query, in lower case."""
    return f"{table.db}.{table.name}".lower()


def other_functions(tree: exp.Expr) -> list[str]:
    """Return the functions in a query that sqlglot doesn't know, people's own among them."""
    names = (str(node.this) for node in tree.find_all(exp.Anonymous))
    return [name for name in names if name.lower() != "range"]


def function_name(function: exp.Func) -> str:
    """Return the name under which ``AGREEING`` has a function."""
    return str(function.name.lower() if isinstance(function, exp.Anonymous) else function.key)


def _differing(tree: exp.Expr) -> Iterator[exp.Expr]:
    for node in tree.walk():
        if isinstance(node, exp.Cast):  # try_cast too
            agrees = not node.is_type(*CASTS_THAT_DIFFER)
        elif isinstance(node, exp.Exists):
            agrees = isinstance(node.this, exp.Query)
        elif isinstance(node, exp.Substring):  # position 0 is 1 in Spark
            start = node.args.get("start")
            agrees = isinstance(start, exp.Literal | exp.Neg) and start.name != "0"
        elif isinstance(node, exp.Literal) and node.is_string:
            agrees = "\\" not in node.name  # an escape in Spark, itself in DuckDB
        elif isinstance(node, exp.Func):
            agrees = function_name(node) in AGREEING
        else:
            outer = isinstance(node, exp.Lateral) and node.args.get("outer")
            agrees = not (outer or isinstance(node, exp.AtTimeZone | exp.Pivot | exp.TableSample))
        if not agrees:
            yield node


def _keep_dates(node: exp.Expr) -> exp.Expr:
    """Make `date_add` and its kin return a date, as in Spark; DuckDB's returns a timestamp."""
    if isinstance(node, exp.TsOrDsAdd | exp.AddMonths) and not isinstance(node.parent, exp.Cast):
        return exp.cast(node.copy(), "date")
    return node

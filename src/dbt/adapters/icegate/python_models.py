"""Python models on the session: run the model, put a view over what it returns."""

from __future__ import annotations

import linecache
import traceback
from typing import Any

from dbt_common.exceptions import DbtRuntimeError
from pyspark.sql import DataFrame, SparkSession

from icegate.explain import explain


def run(session: SparkSession, model: dict[str, Any], compiled_code: str, view: str) -> None:
    """Run ``compiled_code`` and leave its DataFrame behind the temporary view ``view``.

    A MERGE can't read a view over a DataFrame, but it can read a view over that view.
    """
    path = model["original_file_path"]
    # A name that no module has makes Spark's workers take the functions along by value.
    name = f"dbt_model_{model['name']}"
    # Databricks' notebooks have a global `spark`, and models that were written for them use it.
    scope: dict[str, Any] = {"__name__": name, "__file__": path, "spark": session}
    lines = compiled_code.splitlines(keepends=True)
    linecache.cache[path] = (len(compiled_code), None, lines, path)
    try:
        exec(compile(compiled_code, path, "exec"), scope)
        dbt = scope["dbtObj"](lambda name: session.sql(f"select * from {name}"))
        frame = _as_frame(session, scope["model"](dbt, session))
        if not frame.columns:
            raise DbtRuntimeError(
                "`model` returned a DataFrame without columns\n"
                "  why: it would take the columns and the rows of the table away\n"
                "  fix: name them, as in `pandas.DataFrame(rows, columns=[…])`"
            )
        frame.createOrReplaceTempView(f"{view}__frame")
        session.sql(f"create or replace temporary view {view} as select * from {view}__frame")
    except DbtRuntimeError:
        raise
    except (Exception, SystemExit) as error:  # `sys.exit` would end dbt's thread, which never ends
        raise DbtRuntimeError(_authors_view(error, path)) from error


def _as_frame(session: SparkSession, returned: Any) -> DataFrame:
    import pandas
    import pyarrow

    if isinstance(returned, DataFrame):
        return returned
    if isinstance(returned, pandas.DataFrame):
        # Spark's own way turns a missing string into the text 'nan'.
        returned = pyarrow.Table.from_pandas(returned, preserve_index=False)
    if isinstance(returned, pyarrow.Table):
        return session.createDataFrame(_typed(returned))
    if hasattr(returned, "to_spark"):  # pandas on Spark
        return returned.to_spark()
    raise DbtRuntimeError(
        f"`model` returned {type(returned).__name__}\n"
        "  why: a Python model returns a Spark or pandas DataFrame, or an Arrow table\n"
        "  fix: end `def model(dbt, session)` with `return` and the DataFrame"
    )


def _typed(table: Any) -> Any:
    """Make a column that is null throughout a string: a table has no column without a type."""
    import pyarrow

    fields = [
        field.with_type(pyarrow.string()) if pyarrow.types.is_null(field.type) else field
        for field in table.schema
    ]
    return table.cast(pyarrow.schema(fields))


def _authors_view(error: BaseException, path: str) -> str:
    """Say what went wrong, and at which line of the author's own file."""
    message = f"{type(error).__name__}: {explain(error)}"
    own = [step for step in traceback.extract_tb(error.__traceback__) if step.filename == path]
    return f"{message}\n  at: {path}, line {own[-1].lineno}: {own[-1].line}" if own else message

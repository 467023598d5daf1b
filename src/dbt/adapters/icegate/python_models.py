"""Python models on the session: run the model, put a view over what it returns."""

from __future__ import annotations

import linecache
import traceback
from typing import Any

from dbt_common.exceptions import DbtRuntimeError
from pyspark.sql import SparkSession

from dbt.adapters.icegate.errors import as_dbt_error
from icegate.explain import explain
from icegate.frames import as_frame


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
        returned = scope["model"](dbt, session)
        with as_dbt_error():
            frame = as_frame(session, returned)
        frame.createOrReplaceTempView(f"{view}__frame")
        session.sql(f"create or replace temporary view {view} as select * from {view}__frame")
    except DbtRuntimeError:
        raise
    except (Exception, SystemExit) as error:  # `sys.exit` would end dbt's thread, which never ends
        raise DbtRuntimeError(_authors_view(error, path)) from error


def _authors_view(error: BaseException, path: str) -> str:
    """Say what went wrong, and at which line of the author's own file."""
    message = f"{type(error).__name__}: {explain(error)}"
    own = [step for step in traceback.extract_tb(error.__traceback__) if step.filename == path]
    return f"{message}\n  at: {path}, line {own[-1].lineno}: {own[-1].line}" if own else message

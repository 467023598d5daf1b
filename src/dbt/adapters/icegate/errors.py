"""The library's errors at the adapter's door: dbt knows only its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from dbt_common.exceptions import DbtRuntimeError

from icegate.errors import IcegateError


@contextmanager
def as_dbt_error() -> Iterator[None]:
    """Raise the library's own errors as dbt's, which name the model and end without a traceback."""
    try:
        yield
    except IcegateError as error:
        raise DbtRuntimeError(str(error)) from error

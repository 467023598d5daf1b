"""Named steps of a publish, at which `make torture` kills the process or loses an answer."""

from __future__ import annotations

import os
import signal

from icegate.errors import CatalogError

KILL_AT, FAIL_AT = "ICEGATE_KILL_AT", "ICEGATE_FAIL_AT"


def at_step(name: str) -> None:
    """Do nothing, but where one of the variables names this step as the next of `a,b,c`.

    At the last of them the process is killed, or the catalog's answer is lost, once.
    """
    for variable in (KILL_AT, FAIL_AT):
        awaited, _, rest = os.environ.get(variable, "").partition(",")
        if awaited == name:
            os.environ[variable] = rest
            if not rest and variable == KILL_AT:
                os.kill(os.getpid(), signal.SIGKILL)
            if not rest:
                raise CatalogError(f"no answer at the step {name}")

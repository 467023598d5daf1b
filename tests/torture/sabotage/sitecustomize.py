"""Break the gate on purpose in each Python that starts with this on its path: `--sabotage`.

The torture has to notice, or it would prove nothing. Functions are replaced where they are
defined, before anything else has imported them.
"""

from __future__ import annotations

import dataclasses
import os
import time
from typing import Any


def publish_untested() -> None:
    """Publish whatever the tests say."""
    from icegate.gate import verdict

    decide = verdict.decide

    def all_pass(*args: Any, **kwargs: Any) -> Any:
        verdicts = decide(*args, **kwargs)
        return {name: dataclasses.replace(v, held=False) for name, v in verdicts.items()}

    verdict.decide = all_pass


def write_to_main() -> None:
    """Leave out what sends writes to the branch."""
    from icegate.gate.build import WAP_BRANCH, Build

    conf = Build.conf
    Build.conf = lambda self: {k: v for k, v in conf(self).items() if k != WAP_BRANCH}


def publish_one_by_one() -> None:
    """Move table after table rather than all at once."""
    from icegate.gate import store

    move = store.move

    def one_by_one(lake: Any, steps: Any) -> None:
        for number, step in enumerate(steps):
            time.sleep(0.2 * bool(number))
            move(lake, [step])

    store.move = one_by_one


def believe_the_error() -> None:
    """Take an answer that got lost for a commit that failed."""
    from icegate.catalogs.rows import Rows

    Rows.took = lambda self, steps: False


def ignore_other_writers() -> None:
    """Publish over what someone else wrote meanwhile."""
    from icegate.gate import candidates

    candidates._why_not = lambda candidate, build: ""


def forget_the_dead() -> None:
    """Leave the branches of builds that were killed."""
    from icegate.gate import candidates

    def own(lake: Any, table: Any, build: str, kept: Any, anew: Any) -> list[str]:
        branch = f"build_{build}"
        return [branch] * (branch in table.metadata.get("refs", {}) and table.name not in kept)

    candidates.stale_branches = own


if name := os.environ.get("ICEGATE_SABOTAGE"):
    try:
        globals()[name]()
    except Exception as error:  # Python would go on without it
        print(f"cannot sabotage: {error!r}", flush=True)
        os._exit(70)

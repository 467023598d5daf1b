"""A cluster that does Spark's work: where it is, whether it does, and the rows that it keeps."""

from __future__ import annotations

import atexit
import shutil
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from icegate.errors import ServerError
from icegate.explain import explain
from icegate.settings import Lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STALE_S = 2 * 24 * 3600  # rows that no statement has looked at for so long
WORKER_WAIT_S = 90  # Spark itself looks for a master for a minute


def master(lake: Lake) -> str:
    """Return where Spark's tasks run, in its own words."""
    return lake.master or f"local[{lake.cores or '*'}]"


def of_master(lake: Lake) -> dict[str, str]:
    """Return what differs with where tasks run: workers of a cluster have to reach the driver."""
    if lake.master is None:
        return {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}
    return {
        **checkpoint_conf(lake.checkpoints / "session"),
        "spark.cleaner.referenceTracking.cleanCheckpoints": "true",
    }


def checkpoint_conf(folder: Path) -> dict[str, str]:
    """Return what has Spark keep rows in a folder; no character of its name is quoted there."""
    return {"spark.checkpoint.dir": f"file://{folder}"}


def own_checkpoints(lake: Lake, session: SparkSession) -> None:
    """See that rows that this Spark holds are deleted as it ends, and those of killed ones now."""
    made = session.sparkContext.getCheckpointDir()
    if made is None:
        return
    own = Path(urlsplit(made).path)
    for folder in (lake.checkpoints / "session").glob("*"):
        if folder.name != own.name and folder.stat().st_mtime < time.time() - STALE_S:
            shutil.rmtree(folder, ignore_errors=True)
    atexit.register(shutil.rmtree, lake.checkpoints / "session" / own.name, ignore_errors=True)


def await_worker(lake: Lake, session: SparkSession) -> None:
    """Return when the cluster has run a first task; raise ``ServerError`` where it doesn't.

    A master that is away, or whose cores are taken, would have the first model wait for ever.
    """
    if lake.master is None or lake.is_submitted:  # a service makes workers as they are needed
        return
    failed: list[Exception] = []

    def run() -> None:
        try:
            session.range(1).count()
        except Exception as error:
            failed.append(error)

    task = threading.Thread(target=run, daemon=True)
    task.start()
    task.join(WORKER_WAIT_S)
    if not task.is_alive() and not failed:
        return
    from icegate.session import cancel

    with suppress(Exception):
        cancel(session)
    why = f"it ran no task within {WORKER_WAIT_S} s: no worker has a core and memory to spare"
    raise no_cluster(lake, explain(failed[0]).splitlines()[0] if failed else why)


def no_cluster(lake: Lake, why: str) -> ServerError:
    """Return the error of a cluster that can't be used."""
    return ServerError(
        f"cannot use the cluster {lake.master}",
        why=why,
        fix="see that `master:` names it and that it has workers. A warm server keeps its cores "
        "until `icegate server stop`; `spark.cores.max` and `spark.executor.memory` of "
        "`spark_conf` say how much is asked for",
    )

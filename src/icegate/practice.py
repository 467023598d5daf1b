"""What a run of dbt has Spark do, on a lake that is thrown away, so that Java knows it by then.

The class archive is made from one round of it; a server is warm after some.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from icegate.settings import Lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STATEMENTS = Path(__file__).parent / "conf" / "practice.sql"
# A merge of the adapter's: its batch is checked, held, and then merged.
BATCH = """
    select id, kind, name
    from (select *, count(*) over (partition by id) as n from a.t)
    where if(n > 99, raise_error(concat('key ', to_json(struct(id)))), true)
"""
MERGE = """
    merge into a.t as t using held as s on s.id = t.id
    when matched then update set id = s.id, kind = s.kind, name = s.name
    when not matched then insert (id, kind, name) values (s.id, s.kind, s.name)
"""


@contextmanager
def practice_lake(lake: Lake) -> Iterator[Lake]:
    """Hold an empty lake in a folder of its own, with the jars of ``lake``."""
    from icegate.spark_conf import CLASS_PATH, found_jars

    with tempfile.TemporaryDirectory(prefix="icegate-", ignore_cleanup_errors=True) as folder:
        home = Path(folder)
        (home / "ivy").symlink_to(lake.ivy.resolve())
        more = [str(jar) for jar in found_jars(lake) if "aws" in jar.name]
        conf = {CLASS_PATH: os.pathsep.join(more)} if more else {}
        own = {"catalog": "practice", "memory": "1g", "spark_conf": conf}
        yield Lake.model_validate({"home": home, "warehouse": home / "warehouse", **own})


def practise(session: SparkSession, rounds: int = 1) -> None:
    """Run the statements in the session's default catalog; what they make is left there."""
    for _ in range(rounds):
        for statement in STATEMENTS.read_text().split(";"):
            session.sql(statement).collect()
        session.sql(BATCH).distinct().localCheckpoint(eager=True).createOrReplaceTempView("held")
        session.sql(MERGE)

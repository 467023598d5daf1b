"""What anyone would write to bring JSON from Kafka into Iceberg: the other side of `stream`.

It has the session of a stream, and lies beside the same project; called with the stream's name,
and with `polls` where its reader has the options that ours has.
"""

from __future__ import annotations

import sys
from pathlib import Path

from icegate.profiles import load_target
from icegate.session import start_session, stop_session
from icegate.settings import lake_from_target
from icegate.streams import source
from icegate.streams.config import load_stream


def main() -> None:
    project = Path.cwd()
    stream = load_stream(project, sys.argv[1])
    lake = lake_from_target(load_target(project)[1], project)
    session = start_session(source.with_jars(lake, project, stream))
    (route,) = stream.routes
    columns = ", ".join(f"`{name}` {column.type}" for name, column in route.columns.items())
    session.sql(f"create namespace if not exists {route.table.partition('.')[0]}")
    records = session.readStream.format("kafka").options(
        **{"kafka.bootstrap.servers": str(stream.source.kafka)},
        subscribe=",".join(stream.source.topics),
        startingOffsets="earliest",
        maxOffsetsPerTrigger=str(stream.batch.max_records),
        **(source.POLLS if "polls" in sys.argv else {}),
    )
    rows = records.load().selectExpr(
        f"from_json(cast(value as string), '{columns}') as read",
        "topic as source_topic",
        "partition as source_partition",
        "offset as source_offset",
        "timestamp as source_time",
    )
    places = ("source_topic", "source_partition", "source_offset", "source_time")
    rows = rows.selectExpr("read.*", *places)
    writer = rows.writeStream.format("iceberg").trigger(availableNow=True)
    writer = writer.option("checkpointLocation", f"file:{lake.home / 'streams' / 'plain'}")
    writer.toTable(route.table).awaitTermination()
    stop_session()


if __name__ == "__main__":
    main()

"""Where a stream's records come from, all in one form: place, key and value."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from icegate.errors import ConfigError
from icegate.settings import Lake
from icegate.streams.auth import load_profile
from icegate.streams.config import Stream

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# All of Spark 4.1 has what it uses in common; of later ones not all parts are to be had.
KAFKA_JAR = "org.apache.spark:spark-sql-kafka-0-10_2.13:4.1.1"
# What they depend on that Spark has, and that nothing of this needs.
EXCLUDED = (
    "org.apache.hadoop:hadoop-client-runtime",
    "org.scala-lang.modules:scala-parallel-collections_2.13",
    "com.google.code.findbugs:jsr305",
    "org.slf4j:slf4j-api",
    "org.lz4:lz4-java",
    "org.xerial.snappy:snappy-java",
    "com.fasterxml.jackson.core:*",
)
# After each poll Spark asks the broker which records it has: of 250,000 that's 500 times, and at
# the topic's end it's answered only after a fetch that waits there for more.
POLLS = {"kafka.max.poll.records": "10000", "kafka.fetch.max.wait.ms": "20"}
# Certificates and passwords are options of the reader, which plans and errors show.
REDACTED = {"spark.sql.redaction.options.regex": "(?i)url|jaas|keystore|truststore|password"}


def jars(project: Path, stream: Stream) -> list[str]:
    """Return the Maven coordinates that a stream's source needs.

    Raises ``ConfigError`` for a folder that isn't there, and for a profile that can't be used.
    """
    if stream.source.folder is not None:
        path = project / stream.source.folder
        if not path.is_dir():
            raise ConfigError(
                f"cannot find the folder of stream {stream.name}",
                why=f"{path} isn't there",
                fix="make it, or correct source.folder",
            )
        return []
    return [KAFKA_JAR, *load_profile(project, stream.source.auth).jars]


def with_jars(lake: Lake, project: Path, stream: Stream) -> Lake:
    """Return the lake with what a stream's source needs, which Spark gets as it starts."""
    coordinates = jars(project, stream)
    if not coordinates:
        return lake
    own = lake.spark_conf.get("spark.jars.packages")
    packages = ",".join([*coordinates, *([own] if own else [])])
    conf = {"spark.jars.packages": packages, "spark.jars.excludes": ",".join(EXCLUDED)}
    return lake.model_copy(update={"spark_conf": {**lake.spark_conf, **conf}})


def read_records(session: SparkSession, stream: Stream, project: Path) -> DataFrame:
    """Return the stream of records: the columns of ``PLACE``, `_key` and `_value`."""
    if stream.source.kafka is not None:
        return _kafka(session, stream, project)
    return _folder(session, stream, project)


def kafka_options(stream: Stream, project: Path) -> dict[str, str]:
    """Return the options of Spark's reader; those that the stream's file has count before ours."""
    source, batch = stream.source, stream.batch
    options = {
        "kafka.bootstrap.servers": str(source.kafka),
        "subscribe": ",".join(source.topics),
        "startingOffsets": source.starting,
        "groupIdPrefix": f"icegate-{stream.name}",
        **POLLS,
    }
    auth = load_profile(project, source.auth).options(project / "profiles")
    options |= {f"kafka.{name}": value for name, value in auth.items()}
    if batch.records:
        options["minOffsetsPerTrigger"] = str(batch.records)
        options["maxTriggerDelay"] = f"{round(batch.seconds * 1000)}ms"
    if batch.max_records:
        options["maxOffsetsPerTrigger"] = str(batch.max_records)
    return options | source.options


def _kafka(session: SparkSession, stream: Stream, project: Path) -> DataFrame:
    found = session.readStream.format("kafka").options(**kafka_options(stream, project)).load()
    return found.selectExpr(
        "topic as source_topic",
        "partition as source_partition",
        "offset as source_offset",
        "timestamp as source_time",
        "key as _key",
        "value as _value",
    )


def _folder(session: SparkSession, stream: Stream, project: Path) -> DataFrame:
    """Read files whole: only so a line has a number that is the same each time it's read."""
    path = project / str(stream.source.folder)
    options = {"wholetext": "true"} | stream.source.options
    if stream.batch.max_files:
        options["maxFilesPerTrigger"] = str(stream.batch.max_files)
    if stream.batch.max_mb:
        options["maxBytesPerTrigger"] = f"{stream.batch.max_mb}m"
    found = session.readStream.format("text").options(**options).load(f"file:{path}")
    lines = found.selectExpr(
        "_metadata.file_path as source_topic",
        "0 as source_partition",
        "_metadata.file_modification_time as source_time",
        r"posexplode(split(value, '\n')) as (line, text)",
    ).where("trim(text) != ''")
    return lines.selectExpr(
        "source_topic",
        "source_partition",
        "cast(line as bigint) as source_offset",
        "source_time",
        "cast(null as binary) as _key",
        "cast(text as binary) as _value",
    )

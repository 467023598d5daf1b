"""What a stream is: a YAML file that says from where which records go into which tables."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic.functional_validators import BeforeValidator

from icegate.errors import ConfigError, did_you_mean
from icegate.profiles import read_rendered

FOLDER = "python_jobs/streams"
PATH = r"\$(?:\.[A-Za-z_][A-Za-z0-9_-]*)*"
NAME = r"[A-Za-z_][A-Za-z0-9_]*"
TYPE = (
    r"string|boolean|tinyint|smallint|int|bigint|float|double|date|timestamp|timestamp_ntz"
    r"|decimal\(\d+,\d+\)"
)
# What each table has of a record beside the columns of its own.
PLACE = {
    "source_topic": "string",
    "source_partition": "int",
    "source_offset": "bigint",
    "source_time": "timestamp",
}


def _as_list(given: Any) -> Any:
    return given if isinstance(given, list) else [given]


def _as_column(given: Any) -> Any:
    return {"type": given} if isinstance(given, str) else given


Path_ = Annotated[str, Field(pattern=f"^{PATH}$")]
Paths = Annotated[tuple[Path_, ...], BeforeValidator(_as_list)]
Names = Annotated[tuple[str, ...], BeforeValidator(_as_list)]
Values = Annotated[tuple[str, ...], BeforeValidator(lambda g: [_as_text(v) for v in _as_list(g)])]


def _as_type(given: Any) -> Any:
    return given.replace(" ", "") if isinstance(given, str) else given


def _as_text(value: Any) -> str:
    return json.dumps(value) if isinstance(value, bool) else str(value)  # as JSON's own text


def _as_option(given: Any) -> Any:
    return _as_text(given) if isinstance(given, (bool, int, float)) else given


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Column(_Strict):
    """A column of a table: the first of ``path`` that a record has, read as ``type``."""

    path: Paths = ()
    type: Annotated[str, BeforeValidator(_as_type)] = Field("string", pattern=f"^(?:{TYPE})$")
    required: bool = False
    epoch: Literal["s", "ms", "us"] | None = None  # of a timestamp that comes as a number

    @model_validator(mode="after")
    def _is_time(self) -> Column:
        if self.epoch and self.type != "timestamp":
            raise ValueError("epoch is for columns of the type timestamp")
        return self


class Operation(_Strict):
    """Which value at ``path`` inserts, updates or deletes."""

    path: Path_
    insert: Values = ()
    update: Values = ()
    delete: Values = ()


class Route(_Strict):
    """Which records go into a table, and how. ``when`` has the values that a path may have."""

    topic: Names = ()
    when: dict[Path_, Values] = {}
    table: str = Field(pattern=rf"^{NAME}\.{NAME}$")
    key: Names = ()
    operation: Operation | None = None
    columns: dict[
        Annotated[str, Field(pattern=f"^{NAME}$")], Annotated[Column, BeforeValidator(_as_column)]
    ] = Field(min_length=1)
    partition_by: Names = ()

    @model_validator(mode="after")
    def _fits(self) -> Route:
        for name in self.key:
            if name not in self.columns:
                raise ValueError(f"key names {name!r}, which isn't one of its columns")
        if self.operation and (self.operation.delete or self.operation.update) and not self.key:
            raise ValueError("updates and deletes need a key")
        for name in self.columns:
            if name.lower() in PLACE:
                raise ValueError(f"the column {name!r} is the stream's own")
        if len({name.lower() for name in self.columns}) < len(self.columns):
            raise ValueError("two columns differ by upper case alone")
        return self

    @property
    def paths(self) -> set[str]:
        """All paths that are read."""
        found = {path for name in self.columns for path in self.paths_of(name)} | {*self.when}
        return found | ({self.operation.path} if self.operation else set())

    def paths_of(self, name: str) -> tuple[str, ...]:
        """The paths of a column, by default that of its name."""
        return self.columns[name].path or (f"$.{name}",)

    @property
    def types(self) -> dict[str, str]:
        """The types of all columns of the table, also of those that the stream adds."""
        return {name: column.type for name, column in self.columns.items()} | PLACE


class Source(_Strict):
    """Where records are: topics of a Kafka (`host:port,…`), or files of JSON lines in a folder."""

    kafka: str | None = None
    topics: Names = ()
    auth: str = "plaintext"
    folder: str | None = None
    starting: Literal["earliest", "latest"] = "earliest"
    options: dict[str, Annotated[str, BeforeValidator(_as_option)]] = {}

    @model_validator(mode="after")
    def _is_one(self) -> Source:
        if (self.kafka is None) == (self.folder is None):
            raise ValueError("a source is either `kafka` or `folder`")
        if self.kafka is not None and not self.topics:
            raise ValueError("kafka needs `topics`")
        if self.folder is not None and (self.topics or self.starting != "earliest"):
            raise ValueError("`topics` and `starting` are for kafka")
        return self


class Batch(_Strict):
    """When a batch begins: after ``seconds``, with ``records`` also as soon as so many are there.

    It has ``max_records`` at most, of a folder ``max_files`` or ``max_mb``.
    """

    seconds: float = Field(default=60, gt=0)
    records: int | None = Field(default=None, ge=1)
    max_records: int | None = Field(default=None, ge=1)
    max_files: int | None = Field(default=None, ge=1)
    max_mb: int | None = Field(default=None, ge=1)


class Publish(_Strict):
    """Rows go to a branch, which is tested and published every so many minutes."""

    minutes: float = Field(gt=0)


class Stream(_Strict):
    """One stream; ``name`` is that of its file."""

    name: str = Field(pattern=r"^[a-z](?:_?[a-z0-9]){0,39}$")
    source: Source
    batch: Batch = Batch()
    publish: Publish | None = None
    tombstones: Literal["error", "skip"] = "error"  # records without a value
    give_up_minutes: float = Field(default=15, ge=0)
    routes: tuple[Route, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _fits(self) -> Stream:
        tables = [route.table.lower() for route in self.routes]
        for table in tables:
            if tables.count(table) > 1:
                raise ValueError(f"two routes go into {table}: put their conditions into one")
        known = {*self.source.topics}
        for route in self.routes:
            if self.source.folder and route.topic:
                raise ValueError(f"the route of {route.table} names a topic, and a folder has none")
            for topic in route.topic:
                if topic not in known:
                    raise ValueError(f"the route of {route.table} names {topic!r}, no topic of it")
        limits = self.batch
        if self.source.folder and (limits.records or limits.max_records):
            raise ValueError("batch.records and batch.max_records are for kafka")
        if self.source.kafka and (limits.max_files or limits.max_mb):
            raise ValueError("batch.max_files and batch.max_mb are for folders")
        paths = sorted({path for route in self.routes for path in route.paths} - {"$"})
        for outer in paths:
            if any(inner.startswith(f"{outer}.") for inner in paths):
                raise ValueError(f"{outer} is read as a value, and something inside it is, too")
        return self


def find_streams(project: Path) -> dict[str, Path]:
    """Return the files of a project's streams, by name."""
    return {path.stem: path for path in sorted((project / FOLDER).glob("*.yml"))}


def load_stream(project: Path, name: str) -> Stream:
    """Read a stream by its name; raise ``ConfigError``."""
    found = find_streams(project)
    if name not in found:
        raise ConfigError(
            f"cannot find stream {name!r}",
            why=f"there is no {FOLDER}/{name}.yml",
            fix=did_you_mean(name, found, f"streams here: {', '.join(found) or 'none'}"),
        )
    path = found[name]
    given = read_rendered(path, "a stream")
    if not isinstance(given, dict):
        raise ConfigError(f"cannot use {path}", why="it isn't a mapping", fix="see docs/streams.md")
    try:
        return Stream.model_validate({**given, "name": name})
    except ValidationError as error:
        # A key that is misspelt first: that one is missing follows from it.
        wrong = sorted(error.errors(), key=lambda each: each["type"] != "extra_forbidden")
        raise _wrong(wrong[0], path) from error


def _wrong(found: Any, path: Path) -> ConfigError:
    place = ".".join(str(part) for part in found["loc"])
    if found["type"] == "extra_forbidden":
        known = _known_keys(found["loc"][:-1])
        return ConfigError(
            f"unknown key {place!r} in {path}",
            why="no stream has it, so that it would do nothing",
            fix=did_you_mean(str(found["loc"][-1]), known, f"known: {', '.join(known)}"),
        )
    said = found["msg"].removeprefix("Value error, ")
    # An option may be a password.
    is_shown = not (isinstance(found["input"], dict) or place.startswith("source.options"))
    given = f" is {found['input']!r}" if place and is_shown else ""
    return ConfigError(
        f"cannot use {path}",
        why=f"{place}{given}: {said}" if place else said,
        fix="correct it; docs/streams.md lists all keys",
    )


def _known_keys(place: tuple[Any, ...]) -> list[str]:
    models = {"source": Source, "batch": Batch, "publish": Publish, "operation": Operation}
    names = [part for part in place if isinstance(part, str)]
    if not names:
        return [*Stream.model_fields]
    if names[0] == "routes" and len(names) == 1:
        return [*Route.model_fields]
    model: Any = Column if "columns" in names else models.get(names[-1], Stream)
    return [*model.model_fields]

"""Turn an error of Spark, Iceberg or the machine into one that says what to do."""

from __future__ import annotations

import re
from typing import NamedTuple


class Cause(NamedTuple):
    """A pattern over the whole chain of an error, and what it means for a person."""

    pattern: str
    what: str
    fix: str


DENIED = (
    r"attempt to write a readonly database|Permission denied|Access ?Denied|AccessControlException"
    r"|exceptions\.(?:Forbidden|NotAuthorized)Exception"
)
# Of `ValidationException`, which says much else too.
CONFLICTING = (
    r"Found (?:new )?conflicting|Cannot commit, (?:found new|missing)"
    r"|Missing required files to delete|exceptions\.CommitFailedException"
)

# Of a server that a statement was sent to, and no answer came.
CONNECT_GONE = (
    r"StatusCode\.(UNAVAILABLE|DEADLINE_EXCEEDED)|INVALID_HANDLE\.SESSION_|"
    r"SESSION_CHANGED|INVALID_HANDLE\.OPERATION_|\[RETRIES_EXCEEDED\]"
)
THRIFT_GONE = r"\[THRIFT_GONE\]|Invalid SessionHandle"

NO_S3 = Cause(
    r"(?:NoClassDefFoundError|ClassNotFoundException): software[./]amazon[./]awssdk"
    r"|iceberg\.aws\.s3\.S3FileIO: Cannot find constructor",
    "this Spark has no client for S3",
    "start it with org.apache.iceberg:iceberg-aws-bundle, in the version of its Iceberg",
)

CAUSES = (
    Cause(
        r"database is locked|SQLITE_BUSY",
        "the catalog is locked by another process",
        "wait until that one is done, or stop it; the table is as it was",
    ),
    Cause(
        r"No space left on device|Disk quota exceeded|File too large",
        "the disk is full",
        "free some space and run this again; the table is as it was",
    ),
    Cause(
        DENIED,
        "the catalog or the warehouse can't be written",
        "give this user the right to write there",
    ),
    Cause(
        CONFLICTING,
        "other writers changed the same rows or files in each attempt",
        "run this again once they are done; docs/writers.md says how writers keep apart",
    ),
    NO_S3,
    Cause(
        r"software\.amazon\.awssdk\.\S*(?:S3Exception|SdkClientException)",
        "S3 refused it, or couldn't be reached from Spark",
        "`icegate doctor` says why, from this machine; a server elsewhere needs AWS's variables or "
        "a role of its own. A write either came through whole or not at all",
    ),
    Cause(
        r"org\.apache\.iceberg\.exceptions\.NotFoundException|FileNotFoundException",
        "a file of the table is gone",
        "bring the warehouse back to where the catalog points; `icegate doctor` names the place",
    ),
    Cause(
        r"StatusCode\.UNAUTHENTICATED|StatusCode\.PERMISSION_DENIED",
        "the Spark Connect server refuses this user",
        "correct `token:` of the target; of the server of this home: `icegate server stop`, then "
        "`icegate server start`",
    ),
    Cause(
        CONNECT_GONE,
        "the Spark Connect server is gone, or can't be reached",
        "`icegate server status` says whether the one of this home runs, `icegate server start` "
        "starts it; for another one check `host`, `port` and `use_ssl` of the target. A write "
        "either came through whole or not at all: run this again",
    ),
    Cause(
        THRIFT_GONE,
        "the Spark Thrift server is gone, or can't be reached",
        "`icegate server status` says whether the one of this home runs, `icegate server start "
        "--thrift` starts it. A write either came through whole or not at all: run this again",
    ),
    Cause(
        r"PYTHON_VERSION_MISMATCH|Python in worker has different version",
        "Spark's workers have another Python than dbt, so they can't run this model's functions",
        "run dbt with theirs, or set `spark.pyspark.python` where Spark is started to one of dbt's "
        "minor version",
    ),
    Cause(
        r"\[OPERATION_CANCELED\]|cancelled (as )?part of cancelAllJobs|cancelled because",
        "the statement was cancelled",
        "run this again; the table is as it was",
    ),
    Cause(
        r"references temporary view: \[icegate_hash_key\]",
        "a view would need the key of `keyed_hash` each time it's read",
        "make it a table: `materialized: table`",
    ),
    Cause(
        r"Cannot override ref, already set snapshot|Cannot set neither snapshot-id, as-of",
        "this Iceberg reads no earlier version of a table while a build writes to branches",
        "read it by `as_of()`, which does that for you; or take Iceberg 1.12",
    ),
    Cause(
        r"both type and catalog-impl are set",
        "this Spark was started with another way to the same catalog",
        "take the settings of `spark.sql.catalog.<name>` out of where it's started: the target has "
        "them; or give the target another `catalog`",
    ),
    Cause(
        r"Creating a view is not supported by catalog|does not support views",
        "the target's catalog has no views",
        "build a table in its place; docs/targets.md says which catalogs have them",
    ),
    Cause(
        r"\[TABLE_OR_VIEW_NOT_FOUND\]",
        "a table or view isn't there",
        "correct its name, or build it; if the gate holds back its first rows, `icegate status` "
        "says why",
    ),
    Cause(
        r"Invalid type for \S+: unknown is not supported",
        "a column has no type",
        "give it one, as in `cast(null as string)`",
    ),
    Cause(
        r"java\.lang\.NumberFormatException: For input",
        "a setting isn't the number that it has to be",
        "correct it in tblproperties, table_profile or the target's spark_conf",
    ),
    Cause(
        r"OutOfMemoryError|Java heap space",
        "Spark ran out of memory",
        "give the target more, such as `memory: 4g`",
    ),
)


# By `raise_error` in SQL of ours or of a model's author: the text is meant for a person.
RAISED = re.compile(
    r"\[USER_RAISED_EXCEPTION\] (.+?)(?: SQLSTATE: \w+|\n\s+at |$)"
    # Of Spark 3.5, which has no name for it.
    r"|java\.lang\.RuntimeException: ((?:(?!\n\s+at ).)+)\n\s+at org\.apache\.spark\.sql\.catalyst",
    re.DOTALL,
)


def explain(error: BaseException) -> str:
    """Return the message for a person; the whole stack stays in dbt's log."""
    chain = _chain(error)
    whole = "\n".join(chain)
    raised = RAISED.search(whole)
    if raised:
        return raised[1] or raised[2]
    for cause in CAUSES:
        if re.search(cause.pattern, whole):
            return f"{cause.what}\n  why: {_first_line(chain)}\n  fix: {cause.fix}"
    return _without_stack(str(error))


def is_gone(error: BaseException) -> bool:
    """Tell whether it's a server that is gone, or can't be reached."""
    return bool(re.search(f"{CONNECT_GONE}|{THRIFT_GONE}", "\n".join(_chain(error))))


def whole_text(error: BaseException) -> str:
    """Return all that an error and its causes say."""
    return "\n".join(_chain(error.__cause__ or error))


def _chain(error: BaseException) -> list[str]:
    """Collect the messages of a Python error, and of the Java error that it carries."""
    messages = [str(error)]
    # Of a server, where Java's error is text; its class names and causes are in the stack.
    stack = getattr(error, "_stacktrace", None) or getattr(error, "java_stack", None) or ""
    messages += re.findall(
        r"^(?:Caused by: )?([\w.$]+(?:Exception|Error)\b.*)$", stack, re.MULTILINE
    )
    java = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    while java is not None and len(messages) < 20:
        messages.append(f"{java.getClass().getName()}: {java.getMessage()}")
        java = java.getCause()
    return messages


def _first_line(chain: list[str]) -> str:
    said = re.search(r'details = "(.+)"', chain[0])  # of gRPC, whose own error has no other cause
    telling = [text for text in chain if not re.fullmatch(r"[\w.$]+:?\s*", text)] or chain
    return said[1] if said else _without_stack(telling[-1]).replace(":\n- ", ": ").split("\n")[0]


def _without_stack(message: str) -> str:
    """Drop Java's stack, Py4J's preamble and the plan, keep Spark's message and query context."""
    message = re.split(r"\n\s*JVM stacktrace:|\n\s+at [\w.$]+\(|\nDriver stacktrace", message)[0]
    message = re.sub(r"^An error occurred while calling \S+\n?:?\s*", "", message.strip())
    message = re.sub(r"^\((org|java)\.[\w.$]+\) ", "", message)  # Spark Connect names the class
    message = re.sub(r"^(?:[a-z]\w*\.)+\w+(?:Exception|Error): ", "", message)
    # The plan, which repeats the model's SQL and says nothing of the cause.
    return re.sub(
        r"((?:; line \d+ pos \d+)?);\n\s*'?[A-Z].*", r"\1", message, flags=re.DOTALL
    ).strip()

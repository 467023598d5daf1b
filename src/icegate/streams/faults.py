"""What ends a stream, for people: a broker that is away, records that are gone, or else."""

from __future__ import annotations

import re

from icegate.errors import IcegateError
from icegate.explain import explain, whole_text
from icegate.streams.config import Stream

# A broker that is away, or not yet there; what it answers is no such error.
AWAY = re.compile(
    r"org\.apache\.kafka\.common\.errors\.(?:Timeout|Disconnect|Network|Retriable\w*|"
    r"NotLeaderOrFollower|LeaderNotAvailable|CoordinatorNotAvailable|BrokerNotAvailable|"
    r"UnknownTopicOrPartition)Exception|Failed to construct kafka|Broker may not be available|"
    r"Cannot fetch record for offset"
)
GONE = re.compile(
    r"KAFKA_DATA_LOSS|data may have been lost|OffsetOutOfRange|cannot fetch offset", re.I
)
# Before Spark 4.1.3 a query ends so after a batch that an earlier one had begun: it's written and
# committed, and how far behind the topic it is can't be told (SPARK-57438).
UNTOLD = re.compile(r'IterableOps\.map\(.*"scala\.Option\.get\(\)" is null')


def is_away(error: BaseException) -> bool:
    """Tell whether only the broker is away: to wait may help."""
    said = _said(error)
    return bool(AWAY.search(said)) and not GONE.search(said)


def goes_on(error: BaseException) -> bool:
    """Tell whether a query that failed is to be started again."""
    return is_away(error) or bool(UNTOLD.search(_said(error)))


def told(stream: Stream, error: BaseException) -> IcegateError:
    """Return an error as one that says what becomes of the stream, and what to do."""
    said = _said(error)
    nothing = "; what it had begun is written whole at the next start, and nothing twice"
    if GONE.search(said):
        return IcegateError(
            f"stream {stream.name} cannot go on: records that it hasn't read are gone from Kafka",
            why=explain(error).splitlines()[0],
            fix="longer retention keeps this from happening again; to go on without them set "
            "source.options.failOnDataLoss: 'false' for one start, and load them from elsewhere",
        )
    if is_away(error):
        return IcegateError(
            f"stream {stream.name} gave up: its broker didn't answer for "
            f"{stream.give_up_minutes:g} minutes",
            why=explain(error).splitlines()[0],
            fix=f"see that {stream.source.kafka} can be reached, and start it again{nothing}",
        )
    if isinstance(error, KeyboardInterrupt):
        return IcegateError(f"stream {stream.name} was cut short", fix=f"start it again{nothing}")
    what, *more = explain(error).splitlines() or [type(error).__name__]
    why = next((line.strip().removeprefix("why: ") for line in more), "")
    return IcegateError(
        f"stream {stream.name} stopped: {what}",
        why=why,
        fix=f"mend that, and start it again{nothing}",
    )


def _said(error: BaseException) -> str:
    return whole_text(error) + str(error)

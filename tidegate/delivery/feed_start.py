"""Decides where a feed starts, and what happens to one whose topics or schemas could not be prepared.

From its registration on, a new feed holds the log partitions, so it waits for no server: one that went away
fails it (docs/protocols/rows.md). A feed that began in an earlier epoch starts in the past and holds no
partition, and neither does the feed of a backfill. These wait, and nothing of them is lost.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from tidegate.changefeed.definition.feed import Engine, FeedDefinition, FeedTarget
from tidegate.changefeed.lifecycle.job_records import StateRecord
from tidegate.changefeed.lifecycle.output_topic import OutputTopics
from tidegate.changefeed.lifecycle.registration import Prepare, failed, starting_state
from tidegate.errors import (
    FeedError,
    RegistryAway,
    RegistryDenied,
    RetryError,
    SecretMissing,
    SinkNotAllowed,
    StatementError,
    TopologyError,
)
from tidegate.hlc import Timestamp

#: The errors of a preparation that are about the feed or its servers.
UNPREPARED: Final = (FeedError, TopologyError, StatementError, RetryError)
#: Errors whose sentence says all. Of other errors it is said that the sink went away.
_SAY_ALL: Final = (RegistryAway, RegistryDenied, SecretMissing, SinkNotAllowed)


def begins(
    definition: FeedDefinition,
    prepared: Prepare,
    targets: tuple[FeedTarget, ...],
    cluster: str,
    topics: OutputTopics,
    written_to: Timestamp | None,
) -> StateRecord:
    """Return the record to store once the topics exist: it fixes the feed's start for ever.

    ``written_to`` is a timestamp that no marker and no row of the topics' former feeds is above; ``None`` if
    there were no such feeds. A feed from the present starts above it, and above every version that partitions
    have applied: all of its rows, those of its initial scan too, are above every marker and every row before
    them. A feed with a cursor starts there, and that of a backfill where the log that it has read ends.
    """
    if prepared.is_from_now and written_to is not None:
        prepared = replace(prepared, start=max(prepared.start, written_to).next())
    return starting_state(definition, prepared, targets, cluster, topics)


def unprepared(
    definition: FeedDefinition, step: Prepare, error: Exception, servers: str, topics: OutputTopics
) -> StateRecord | None:
    """Return the failed state of a feed whose preparation met one of ``UNPREPARED``; ``None`` if it waits.

    ``servers`` are those of the feed's sink. ``topics`` is what was stored of the topics that the feed may
    have created.
    """
    if not isinstance(error, RetryError):
        return failed(definition, str(error), topics)
    if step.targets or definition.engine is Engine.BACKFILL:
        return None
    if isinstance(error, _SAY_ALL):
        return failed(definition, str(error), topics)
    return sink_gone(definition, error, servers, topics)


def sink_gone(
    definition: FeedDefinition, error: RetryError, servers: str, topics: OutputTopics
) -> StateRecord:
    """Return the failed state of a new feed whose sink answered before, and does not answer now."""
    return failed(
        definition,
        f"its sink, the Kafka cluster at {servers}, went away while the feed began; create it again "
        f"once it is back: {error}",
        topics,
    )

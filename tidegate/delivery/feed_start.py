"""Decides where a feed starts, and what happens to a feed that could not be prepared.

A feed is prepared when its topics and schemas exist. From its registration on, the log partitions wait for a
new feed. So the feed itself cannot wait for a server: if a server went away, the feed fails
(docs/protocols/rows.md). No partition waits for a feed that began in an earlier epoch, since that feed starts
in the past. No partition waits for the feed of a backfill either. These two kinds of feeds wait for their
servers, and lose nothing.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from tidegate.changefeed.definition.feed import Engine, FeedDefinition, FeedTarget
from tidegate.changefeed.lifecycle.job_records import StateRecord
from tidegate.changefeed.lifecycle.output_topic import OutputTopics
from tidegate.changefeed.lifecycle.registration import Prepare, failed, starting_state
from tidegate.errors import (
    ClientsExhausted,
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
#: Errors whose own sentence is the whole reason for a failure. For any other ``RetryError`` the reason says
#: that the sink went away.
_SAY_ALL: Final = (ClientsExhausted, RegistryAway, RegistryDenied, SecretMissing, SinkNotAllowed)


def begins(
    definition: FeedDefinition,
    prepared: Prepare,
    targets: tuple[FeedTarget, ...],
    cluster: str,
    topics: OutputTopics,
    written_to: Timestamp | None,
) -> StateRecord:
    """Return the record to store once the topics exist: it fixes the feed's start for ever.

    No marker and no row of the topics' former feeds is above ``written_to``, which is ``None`` if there were
    no such feeds. A feed from the present starts above this timestamp, and above every version that
    partitions have applied. So all of its rows, also those of its initial scan, are above every earlier
    marker and row. A feed with a cursor starts at the cursor. The feed of a backfill without a cursor starts
    at the timestamp up to which the log that it has read is complete.
    """
    if prepared.is_from_now and written_to is not None:
        prepared = replace(prepared, start=max(prepared.start, written_to).next())
    return starting_state(definition, prepared, targets, cluster, topics)


def unprepared(
    definition: FeedDefinition, step: Prepare, error: Exception, servers: str, topics: OutputTopics
) -> StateRecord | None:
    """Return the failed state of a feed whose preparation met one of ``UNPREPARED``.

    Return ``None`` if the feed waits for its servers instead. It does so after a ``RetryError``, if it began
    in an earlier epoch or is in a backfill. ``servers`` are those of the feed's sink. ``topics`` are the
    stored topics that the feed may have created.
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

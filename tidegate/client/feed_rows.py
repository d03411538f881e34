"""A feed for people and scripts: the columns of ``SHOW CHANGEFEED JOBS``.

A column that CockroachDB has too has the same name here (``pkg/sql/delegate/show_changefeed_jobs.go``).
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from tidegate.changefeed.definition.feed import FIRST_EPOCH, FeedId, FeedState
from tidegate.changefeed.definition.literal_secrets import literal_secrets
from tidegate.changefeed.definition.options import FeedOptions, InitialScan
from tidegate.changefeed.definition.sink import parse_sink_uri
from tidegate.changefeed.lifecycle.jobs import FeedView
from tidegate.changefeed.lifecycle.output_topic import TopicOrigin
from tidegate.client.own_topics import named_topics
from tidegate.errors import StatementError
from tidegate.hlc import NANOS_PER_SECOND, Timestamp
from tidegate.redaction import redacted


def feed_row(feed_id: FeedId, feed: FeedView) -> dict[str, Any]:
    """Return the columns of one feed as values for ``json.dumps``; unknown ones are ``None`` or empty."""
    definition, state, high_water = feed.definition, feed.current_state, feed.high_water
    start = None if feed.beginning is None else feed.beginning.start
    return {
        "job_id": feed_id,
        "description": None if definition is None else definition.description,
        "status": feed.status.value,
        "running_status": running_status(feed),
        "engine": None if definition is None else definition.engine.value,
        "created": None if definition is None else readable(Timestamp(definition.created_ns)),
        "start_timestamp": None if start is None else start.decimal(),
        "high_water_timestamp": None if high_water is None else high_water.decimal(),
        "readable_high_water_timestamptz": None if high_water is None else readable(high_water),
        "error": "" if state is None else redacted(state.error),
        "sink_uri": None if definition is None else redacted_sink(definition.sink_uri),
        "full_table_names": [] if definition is None else [str(table) for table in definition.tables],
        "topics": [target.topic for target in feed.targets],
        "existing_topics": taken_topics(feed),
        "literal_secrets": [] if definition is None else literal_secrets(definition),
        "format": None if definition is None else definition.options.format.value,
        "envelope": None if definition is None else definition.options.envelope.value,
    }


def taken_topics(feed: FeedView) -> list[str]:
    """Return those topics of the feed that somebody else had created, and that the feed was told to use."""
    begun, definition = feed.beginning, feed.definition
    if begun is None or definition is None:
        return []
    known = named_topics(definition, feed.stored_topics or begun.topics)
    return [name for name, topic in known.items() if topic.origin is TopicOrigin.EXISTING]


def running_status(feed: FeedView) -> str:
    """Return in words what a running feed does before it has a high-water.

    For a pending feed that is not in its first epoch, return to which engine or cluster it moves. In all
    other cases return an empty text.
    """
    if feed.status is FeedState.PENDING and feed.defined is not None and feed.defined.epoch > FIRST_EPOCH:
        accepted = feed.defined.accepted
        if accepted is not None and accepted.epoch == feed.defined.epoch:
            where = f"the cluster {accepted.cluster}" if accepted.cluster else "the workers' own cluster"
            return f"continuing on {where}"
        return f"moving to {feed.defined.engine.value}"
    if feed.status is not FeedState.RUNNING or feed.definition is None or feed.high_water is not None:
        return ""
    options = feed.definition.options
    if options.initial_scan is not InitialScan.NO:
        return "initial scan"
    return "" if options.cursor is None else "catching up"


def beginning(options: FeedOptions) -> str:
    """Return a sentence that says what a feed with these options does first."""
    cursor = options.cursor
    at = "" if cursor is None else f"the cursor, {cursor} ({readable(cursor)})"
    match options.initial_scan:
        case InitialScan.NO:
            what = f"what was committed after {at}" if at else "what is committed from now on"
            return f"The feed begins with {what}."
        case InitialScan.YES:
            return f"The feed begins with a scan of its tables as of {at or 'its start'}; changes follow."
        case InitialScan.ONLY:
            return f"The feed is a scan of its tables as of {at or 'its start'}, and ends with it."


def readable(timestamp: Timestamp) -> str:
    """Return the wall time in UTC, to the microsecond: ``2026-01-02 03:04:05.678901+00:00``."""
    seconds, nanos = divmod(timestamp.wall, NANOS_PER_SECOND)
    moment = datetime.fromtimestamp(seconds, UTC).replace(microsecond=nanos // 1_000)
    return moment.isoformat(sep=" ", timespec="microseconds")


def redacted_sink(uri: str) -> str:
    """Return the sink without its secrets; ``(unreadable)`` for one that cannot be read."""
    try:
        return parse_sink_uri(uri).redacted()
    except StatementError:
        return "(unreadable)"

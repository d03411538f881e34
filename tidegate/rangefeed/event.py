"""What a feed of a range receives.

Per key the values come in rising timestamp order once the first checkpoint has been received; before it,
while the feed catches up, a value may come twice and a catch-up is ordered by key. Source: CockroachDB
``kvpb.RangeFeedEvent``.
"""

from __future__ import annotations

from typing import Final, NamedTuple, TypeAlias

from tidegate.hlc import ResolvedTimestamp, Timestamp
from tidegate.spans import Span


class ValueEvent(NamedTuple):
    """A committed version. ``value`` empty is a deletion.

    ``prev_value`` is the live value that it replaced: ``None`` where there was none, or where the feed did
    not ask for it.
    """

    key: bytes
    timestamp: Timestamp
    value: bytes
    prev_value: bytes | None = None


class DeleteRangeEvent(NamedTuple):
    """An MVCC range tombstone, clipped to the feed's span."""

    span: Span
    timestamp: Timestamp


class SSTableEvent(NamedTuple):
    """A file of versions that was added to the range whole; it may hold keys outside of the feed's span."""

    span: Span
    timestamp: Timestamp
    data: bytes


class CheckpointEvent(NamedTuple):
    """No value of ``span`` at or below ``resolved`` follows that the feed has not received.

    A feed's first checkpoint, which may be at zero, says that its catch-up is over: the steady state.
    """

    span: Span
    resolved: ResolvedTimestamp


FeedEvent: TypeAlias = ValueEvent | DeleteRangeEvent | SSTableEvent | CheckpointEvent

#: What an event costs beside its keys and values, for memory accounting.
EVENT_BYTES: Final = 72

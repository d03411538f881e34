"""The events that a feed of a range receives.

After the first checkpoint the values of a key come in rising timestamp order. Before it, while the feed
catches up, values come in key order, and a value may come twice. Source: CockroachDB ``kvpb.RangeFeedEvent``.
"""

from __future__ import annotations

from typing import Final, NamedTuple, TypeAlias

from tidegate.hlc import ResolvedTimestamp, Timestamp
from tidegate.spans import Span


class ValueEvent(NamedTuple):
    """A committed version. An empty ``value`` is a deletion.

    ``prev_value`` is the live value that it replaced. It is ``None`` if there was none, or if the feed did
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
    """A file of versions that was added to the range.

    It comes as a whole, also with its keys that are outside the feed's span.
    """

    span: Span
    timestamp: Timestamp
    data: bytes


class CheckpointEvent(NamedTuple):
    """A checkpoint: the feed has received every value of ``span`` at or below ``resolved``.

    A feed's first checkpoint, which may be at zero, says that its catch-up is over: it is in the steady
    state.
    """

    span: Span
    resolved: ResolvedTimestamp


FeedEvent: TypeAlias = ValueEvent | DeleteRangeEvent | SSTableEvent | CheckpointEvent

#: The bytes that an event takes besides its keys and values, for the memory budget.
EVENT_BYTES: Final = 72

"""Catch-up: gives a feed the stored versions of its span above its start.

The versions come in key order, and those of one key in rising timestamp order. So over several keys they do
not come in timestamp order. Source: CockroachDB ``rangefeed/catchup_scan.go``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from heapq import merge
from typing import Final, NamedTuple, TypeAlias

from tidegate.errors import InlineValue
from tidegate.hlc import Timestamp
from tidegate.raftlog.entry import TxnId
from tidegate.rangefeed.event import DeleteRangeEvent, FeedEvent, ValueEvent
from tidegate.rangefeed.registration import FeedRequest
from tidegate.spans import Span

_new: Final = tuple.__new__


class StoredVersion(NamedTuple):
    """A version as the store holds it. An empty ``value`` is a deletion.

    With ``intent_of`` it is the provisional value of that open transaction. With ``inline`` it has no
    timestamp; only the store's own bookkeeping has such values.
    """

    key: bytes
    timestamp: Timestamp
    value: bytes
    omit: bool = False
    origin_id: int = 0
    intent_of: TxnId | None = None
    inline: bool = False


class RangeTombstone(NamedTuple):
    """A stored range tombstone: versions in ``span`` below ``timestamp`` are deleted."""

    span: Span
    timestamp: Timestamp


class VersionBlock(NamedTuple):
    """Versions in store order: by rising keys, the newest version of a key first.

    A block has all versions of each of its keys. ``span`` contains its keys. ``newest`` is the highest
    timestamp in it: a catch-up that starts there or above does not look into the block, unless the block has
    inline values.
    """

    span: Span
    newest: Timestamp
    versions: Sequence[StoredVersion]
    has_inline: bool = False


Versions: TypeAlias = Iterable[VersionBlock]


def block_of(versions: Sequence[StoredVersion]) -> VersionBlock:
    """Return a block of versions, which must be in store order. Raises ``ValueError`` when there are none."""
    if not versions:
        raise ValueError("a block without versions")
    return VersionBlock(
        Span(versions[0].key, versions[-1].key + b"\x00"),
        max(version.timestamp for version in versions),
        versions,
        any(version.inline for version in versions),
    )


def catch_up(
    request: FeedRequest, blocks: Versions, tombstones: Iterable[RangeTombstone] = ()
) -> Iterator[FeedEvent]:
    """Return the events of the stored versions and range tombstones that ``request`` asks for.

    A range tombstone comes at its start key, before all versions of that key. Open intents are passed over.
    One block at a time is in memory, with all tombstones. The iterator raises ``InlineValue`` when it comes
    to an inline value.
    """
    covering = [stone for stone in tombstones if stone.span.overlaps(request.span)]
    stones = sorted(_deletions(request, covering), key=lambda event: (event.span.start, event.timestamp))
    values = _values(request, blocks, covering)
    return merge(stones, values, key=_place) if stones else values


def _place(event: FeedEvent) -> tuple[bytes, bool]:
    """Return the sort key of an event of a catch-up: by key, deletions of ranges first."""
    if isinstance(event, ValueEvent):
        return event.key, True
    return event.span.start, False


def _deletions(request: FeedRequest, covering: list[RangeTombstone]) -> Iterator[DeleteRangeEvent]:
    for stone in covering:
        part = stone.span.intersect(request.span)
        if part is not None and stone.timestamp > request.start:
            yield DeleteRangeEvent(part, stone.timestamp)


def _values(request: FeedRequest, blocks: Versions, covering: list[RangeTombstone]) -> Iterator[FeedEvent]:
    span, start = request.span, request.start
    for block in blocks:
        if not block.span.overlaps(span) or (block.newest <= start and not block.has_inline):
            continue
        inside = block.versions
        if block.span.start < span.start or block.span.end > span.end:
            inside = [version for version in inside if span.start <= version.key < span.end]
        if request.with_diff:
            yield from _with_previous(request, inside, covering)
        else:
            yield from _without_previous(request, inside)


def _without_previous(request: FeedRequest, versions: Iterable[StoredVersion]) -> Iterator[FeedEvent]:
    start, filtering, local_only = request.start, request.with_filtering, request.omit_remote
    key: bytes | None = None
    newer: list[FeedEvent] = []
    for version_key, timestamp, value, omit, origin_id, intent_of, inline in versions:
        if inline:
            raise _inline(version_key)
        if timestamp <= start or intent_of is not None:
            continue
        if (omit and filtering) or (origin_id and local_only):
            continue
        if version_key != key:
            key = version_key
            if newer:
                yield from reversed(newer)
                newer.clear()
        newer.append(_new(ValueEvent, (version_key, timestamp, value, None)))
    yield from reversed(newer)


class _Awaiting:
    """The events of one key that wait for the values that they replaced. The newest one is first."""

    __slots__ = ("covering", "events", "key")

    def __init__(self) -> None:
        self.key: bytes | None = None
        self.events: list[ValueEvent] = []
        self.covering: list[RangeTombstone] = []

    def begin(self, key: bytes, covering: list[RangeTombstone]) -> None:
        self.key = key
        self.events.clear()
        self.covering = [stone for stone in covering if stone.span.contains(key)] if covering else covering

    def replaced(self, value: bytes, timestamp: Timestamp) -> None:
        """Take the next older version of the key: the oldest event so far has replaced its ``value``.

        Nothing changes if that event's replaced value is known, or if a range tombstone is between the two.
        An empty ``value``, of a deletion, counts as not known, as in CockroachDB. So if the feed leaves the
        deletion out, the version below it is shown as the one that the event replaced.
        """
        event = self.events[-1]
        if event.prev_value or not value:
            return
        newer = event.timestamp
        if not any(timestamp < stone.timestamp < newer for stone in self.covering):
            self.events[-1] = event._replace(prev_value=value)


def _with_previous(
    request: FeedRequest, versions: Iterable[StoredVersion], covering: list[RangeTombstone]
) -> Iterator[FeedEvent]:
    start, filtering, local_only = request.start, request.with_filtering, request.omit_remote
    awaiting = _Awaiting()
    for key, timestamp, value, omit, origin_id, intent_of, inline in versions:
        if inline:
            raise _inline(key)
        if intent_of is not None:
            continue
        if timestamp <= start:
            if awaiting.events and key == awaiting.key:
                awaiting.replaced(value, timestamp)
                yield from reversed(awaiting.events)  # older versions were replaced before the start
                awaiting.events.clear()
            continue
        if key != awaiting.key:
            yield from reversed(awaiting.events)
            awaiting.begin(key, covering)
        elif awaiting.events:
            awaiting.replaced(value, timestamp)
        if not ((omit and filtering) or (origin_id and local_only)):
            awaiting.events.append(_new(ValueEvent, (key, timestamp, value, None)))
    yield from reversed(awaiting.events)


def _inline(key: bytes) -> InlineValue:
    return InlineValue(
        f"unexpected inline value of key {key.hex()}: without a timestamp, no feed can tell what it missed. "
        "The feed ends; give it a span without the store's own bookkeeping"
    )

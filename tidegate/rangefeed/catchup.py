"""The versions that a feed missed: what is stored of a span above the feed's start.

Key by key in key order, and within a key in rising timestamp order; so not in timestamp order over keys.
Source: CockroachDB ``rangefeed/catchup_scan.go``.
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
    """A version as the store holds it. ``value`` empty is a deletion.

    With ``intent_of`` it is the provisional value of that open transaction; with ``inline`` it has no
    timestamp, as only the store's own bookkeeping may.
    """

    key: bytes
    timestamp: Timestamp
    value: bytes
    omit: bool = False
    origin_id: int = 0
    intent_of: TxnId | None = None
    inline: bool = False


class RangeTombstone(NamedTuple):
    """A stored range tombstone: what is in ``span`` below ``timestamp`` is deleted."""

    span: Span
    timestamp: Timestamp


class VersionBlock(NamedTuple):
    """Versions in store order: keys rising, within a key the newest first.

    A block has all versions of each of its keys. ``newest`` is the highest timestamp in it: a catch-up
    above that does not look into the block. ``span`` holds all its keys.
    """

    span: Span
    newest: Timestamp
    versions: Sequence[StoredVersion]
    has_inline: bool = False


Versions: TypeAlias = Iterable[VersionBlock]


def block_of(versions: Sequence[StoredVersion]) -> VersionBlock:
    """A block of versions that stand in store order; ``ValueError`` when there are none."""
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
    """The events of the stored versions and range tombstones that ``request`` asks for.

    Range tombstones come at their start, before every version of that key. Open intents are passed over.
    One block is in memory at a time, with the tombstones. Raises ``InlineValue`` when it comes to one.
    """
    covering = [stone for stone in tombstones if stone.span.overlaps(request.span)]
    stones = sorted(_deletions(request, covering), key=lambda event: (event.span.start, event.timestamp))
    values = _values(request, blocks, covering)
    return merge(stones, values, key=_place) if stones else values


def _place(event: FeedEvent) -> tuple[bytes, bool]:
    """Where an event stands in a catch-up: by key, deletions of ranges first."""
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
    """The versions of one key that are passed on, newest first, each with the value that it replaced."""

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
        """The next older version of the key: what the oldest one so far replaced, if that is not known yet.

        A deletion leaves it unknown, as in the source, where only bytes tell known from unknown: where the
        feed leaves a deletion out, the version below it passes for what the one above it replaced.
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
                yield from reversed(awaiting.events)  # what is older yet, nobody replaced since the start
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

"""Decides which event goes to which feeds of a range, and in which form.

Feeds that ask for the same span in the same way are one audience: for all of them it is decided once
whether they get an event, and the event is made once. Source: CockroachDB ``rangefeed/registry.go``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from tidegate.hlc import ZERO, ResolvedTimestamp, Timestamp
from tidegate.rangefeed.event import CheckpointEvent, FeedEvent, SSTableEvent, ValueEvent
from tidegate.rangefeed.feed_end import FeedEnd
from tidegate.rangefeed.memory_budget import Charge
from tidegate.rangefeed.registration import Buffered, FeedRequest, Registration
from tidegate.spans import Span

_new: Final = tuple.__new__


class Routed(NamedTuple):
    """An event, with what decides which feeds receive it.

    ``span`` has the keys that it touches. ``omit`` and ``origin_id`` are those of the written version.
    """

    span: Span
    event: FeedEvent
    omit: bool = False
    origin_id: int = 0


class _Audience:
    """The feeds that receive the same form of each event. They differ only in their starts."""

    __slots__ = ("end", "feeds", "highest_start", "request", "start")

    def __init__(self, request: FeedRequest) -> None:
        self.request = request
        self.start, self.end = request.span
        self.feeds: list[Registration] = []
        self.highest_start: Timestamp = ZERO

    def receivers(self, timestamp: Timestamp | None) -> list[Registration]:
        """Return the feeds that start below ``timestamp``; all of them if it is ``None``."""
        if timestamp is None or timestamp > self.highest_start:
            return self.feeds
        return [feed for feed in self.feeds if feed.request.start < timestamp]

    def refresh(self) -> None:
        self.highest_start = max((feed.request.start for feed in self.feeds), default=ZERO)


class Registrations:
    """The feeds of one range, by audience.

    A feed leaves when it ends. A feed that overflowed receives nothing more, but leaves only when its reader
    has taken the last event that waits for it.
    """

    __slots__ = ("_audiences", "_live")

    def __init__(self) -> None:
        self._live: dict[Registration, None] = {}
        self._audiences: dict[FeedRequest, _Audience] = {}

    def __len__(self) -> int:
        return len(self._live)

    def __iter__(self) -> Iterator[Registration]:
        return iter(tuple(self._live))

    def add(self, feed: Registration) -> None:
        """Add a feed: it receives events from here on."""
        self._live[feed] = None
        form = feed.request._replace(start=ZERO)
        audience = self._audiences.get(form)
        if audience is None:
            audience = self._audiences[form] = _Audience(form)
        audience.feeds.append(feed)
        audience.refresh()

    def discard(self, feed: Registration) -> bool:
        """Remove a feed: it receives nothing any more. Returns whether it was there."""
        if feed not in self._live:
            return False
        del self._live[feed]
        self._leave_audience(feed)
        return True

    def disconnect(self, span: Span, end: FeedEnd) -> None:
        """End every feed that overlaps ``span``."""
        for feed in self:
            if feed.request.span.overlaps(span):
                feed.end(end)

    def needs_value(self, span: Span) -> bool:
        """Whether any feed watches ``span``, so that its values are needed."""
        return any(audience.request.span.overlaps(span) for audience in self._audiences.values())

    def needs_previous(self, span: Span) -> bool:
        """Whether any feed that watches ``span`` wants previous values."""
        return any(
            form.with_diff and form.span.overlaps(span)
            for form in (audience.request for audience in self._audiences.values())
        )

    def have_room(self, routed: Routed) -> bool:
        """Whether every feed that receives the event has room for it."""
        timestamp = _timestamp_of(routed.event)
        return all(
            len(feed.buffer) < feed.capacity
            for audience in self._audiences.values()
            if _wants(audience.request, routed)
            for feed in audience.receivers(timestamp)
        )

    def publish(self, routed: Routed, charge: Charge | None = None) -> None:
        """Give the event to the feeds that want it, to each in the form that it asked for."""
        timestamp = _timestamp_of(routed.event)
        lost: list[Registration] = []
        for audience in self._audiences.values():
            if _wants(audience.request, routed):
                form = shaped(routed.event, audience.request)
                if form is not None:
                    _deliver(audience.receivers(timestamp), (form, charge), lost)
        self._lose(lost)

    def publish_value(
        self,
        key: bytes,
        timestamp: Timestamp,
        value: bytes,
        prev_value: bytes | None,
        omit: bool,
        origin_id: int,
        charge: Charge | None,
    ) -> None:
        """Do the same as `publish`, faster, for a version: nearly every event is a version."""
        lost: list[Registration] = []
        for audience in self._audiences.values():
            if not audience.start <= key < audience.end:
                continue
            request = audience.request
            if (omit and request.with_filtering) or (origin_id and request.omit_remote):
                continue
            prev = (prev_value or None) if request.with_diff else None
            event = _new(ValueEvent, (key, timestamp, value, prev))
            _deliver(audience.receivers(timestamp), (event, charge), lost)
        if lost:
            self._lose(lost)

    def publish_checkpoint(self, span: Span, resolved: ResolvedTimestamp, charge: Charge | None) -> None:
        """Give a checkpoint to all feeds, to each for its own part of ``span``."""
        lost: list[Registration] = []
        start, end = span
        for audience in self._audiences.values():
            whole = start <= audience.start and audience.end <= end
            part = audience.request.span if whole else span.intersect(audience.request.span)
            if part is not None:
                _deliver(audience.feeds, (_new(CheckpointEvent, (part, resolved)), charge), lost)
        if lost:
            self._lose(lost)

    def _lose(self, lost: list[Registration]) -> None:
        for feed in lost:
            feed.overflowed = True
            self._leave_audience(feed)

    def _leave_audience(self, feed: Registration) -> None:
        form = feed.request._replace(start=ZERO)
        audience = self._audiences.get(form)
        if audience is None or feed not in audience.feeds:
            return
        audience.feeds.remove(feed)
        audience.refresh()
        if not audience.feeds:
            del self._audiences[form]


def shaped(event: FeedEvent, request: FeedRequest) -> FeedEvent | None:
    """Return the event in the form for a feed with this request.

    It is clipped to the feed's span, and has a previous value only if the feed asked for it. It is ``None``
    when nothing of it is in the feed's span. Files of versions are sent whole.
    """
    if isinstance(event, ValueEvent):
        prev = (event.prev_value or None) if request.with_diff else None
        return event if prev == event.prev_value else event._replace(prev_value=prev)
    if isinstance(event, SSTableEvent):
        return event
    part = event.span.intersect(request.span)
    return None if part is None else event._replace(span=part)


def _timestamp_of(event: FeedEvent) -> Timestamp | None:
    """Return the timestamp to compare with a feed's start; ``None`` for checkpoints, which all receive."""
    return None if isinstance(event, CheckpointEvent) else event.timestamp


def _wants(request: FeedRequest, routed: Routed) -> bool:
    return (
        request.span.overlaps(routed.span)
        and not (routed.omit and request.with_filtering)
        and not (routed.origin_id and request.omit_remote)
    )


def _deliver(feeds: list[Registration], item: Buffered, lost: list[Registration]) -> None:
    """Put the item into each feed's buffer. Feeds without room are added to ``lost``."""
    missed = 0
    for feed in feeds:
        buffer = feed.buffer
        if len(buffer) < feed.capacity:
            buffer.append(item)
        else:
            missed += 1
            lost.append(feed)
    charge = item[1]
    if charge is not None:
        charge.holders += len(feeds) - missed

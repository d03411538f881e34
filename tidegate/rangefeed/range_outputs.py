"""Makes the outputs of a range for its feeds: values when they commit, checkpoints when they become true."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple, TypeAlias

from tidegate.errors import MalformedEntry
from tidegate.hlc import ClosedTimestamp, Timestamp
from tidegate.raftlog.entry import CommitIntent, DeleteRange, Op, WriteIntent, WriteValue
from tidegate.rangefeed.event import (
    EVENT_BYTES,
    CheckpointEvent,
    DeleteRangeEvent,
    SSTableEvent,
    ValueEvent,
)
from tidegate.rangefeed.memory_budget import Charge
from tidegate.rangefeed.registration import Registration
from tidegate.rangefeed.routing import Registrations, Routed
from tidegate.ranges.resolver import Resolver
from tidegate.spans import Span


class Init(NamedTuple):
    """All intents that are older than the log. With them the resolver knows all open intents."""

    intents: tuple[WriteIntent, ...]


#: The logical ops of one command.
Ops: TypeAlias = tuple[Op, ...]
#: The inputs of a range's feeds, in order. A registration gets the outputs of the inputs after it.
RangeInput: TypeAlias = Ops | ClosedTimestamp | Init | SSTableEvent | Registration
#: The outputs that follow from inputs: ops for values and deleted ranges, and events for all else.
RangeOutput: TypeAlias = WriteValue | CommitIntent | DeleteRange | SSTableEvent | CheckpointEvent

_PUBLISHED: Final = (WriteValue, CommitIntent, DeleteRange)
_VALUES: Final = (WriteValue, CommitIntent)


class RangeOutputs:
    """Gives a range's inputs to its resolver, and the outputs to its feeds.

    Each output must be published before the next one is asked for. So a value goes to the feeds before the
    resolver takes its op, and a checkpoint follows if the op moves the resolved timestamp.
    """

    __slots__ = ("_feeds", "_span", "late_commits", "resolver")

    def __init__(self, span: Span, resolver: Resolver, feeds: Registrations) -> None:
        self.resolver = resolver
        #: How many commits were at or below the resolved timestamp: a checkpoint had covered them before.
        self.late_commits = 0
        self._span = span
        self._feeds = feeds

    def of(self, taken: RangeInput) -> Iterator[RangeOutput]:
        """Return the outputs of an input.

        The iterator raises ``ForbiddenOp`` where the log breaks its rules.
        """
        if isinstance(taken, Timestamp):
            return self._of_closed(ClosedTimestamp(taken))
        if isinstance(taken, Registration):
            return self._of_registration(taken)
        if isinstance(taken, SSTableEvent):
            return iter((taken,))
        if isinstance(taken, Init):
            return self._of_init(taken)
        return self._of_ops(taken)

    def publish(self, output: RangeOutput, charge: Charge | None) -> None:
        """Give the output to the feeds that want it.

        Raises ``MalformedEntry`` for keys outside the range, and for a missing value that a feed wants.
        """
        if isinstance(output, _VALUES):
            self._publish_value(output, charge)
        elif isinstance(output, CheckpointEvent):
            self._feeds.publish_checkpoint(output.span, output.resolved, charge)
        else:
            routed = routed_output(output)
            self._require_inside(routed.span)
            self._feeds.publish(routed, charge)

    def _of_ops(self, ops: Ops) -> Iterator[RangeOutput]:
        apply = self.resolver.apply
        for op in ops:
            if isinstance(op, _PUBLISHED):
                yield op
            if apply(op):
                yield self._checkpoint()

    def _of_closed(self, closed: ClosedTimestamp) -> Iterator[RangeOutput]:
        if self.resolver.forward_closed(closed):
            yield self._checkpoint()

    def _of_init(self, init: Init) -> Iterator[RangeOutput]:
        for intent in init.intents:
            self.resolver.apply(intent)
        if self.resolver.initialise():
            yield self._checkpoint()

    def _of_registration(self, feed: Registration) -> Iterator[RangeOutput]:
        """Add the feed, and give it its first checkpoint. There is no output for other feeds."""
        if feed.ended is None:
            self._feeds.add(feed)
            feed.put((CheckpointEvent(feed.request.span, self.resolver.resolved), None))
        yield from ()

    def _checkpoint(self) -> CheckpointEvent:
        return CheckpointEvent(self._span, self.resolver.resolved)

    def _publish_value(self, op: WriteValue | CommitIntent, charge: Charge | None) -> None:
        key, value = op.key, op.value
        if not self._span.start <= key < self._span.end:
            self._require_inside(_point(key))
        if op.timestamp <= self.resolver.resolved and isinstance(op, CommitIntent):
            self.late_commits += 1
        if value is None:
            if self._feeds.needs_value(_point(key)):
                raise MalformedEntry(
                    f"the version of {key.hex()} at {op.timestamp} came without its value. The feeds of the "
                    "range end; begin them again with a catch-up"
                )
            return
        self._feeds.publish_value(
            key, op.timestamp, value, op.prev_value, op.omit_in_rangefeeds, op.origin_id, charge
        )

    def _require_inside(self, span: Span) -> None:
        if not (self._span.start <= span.start and span.end <= self._span.end):
            raise MalformedEntry(
                f"an op writes {span.start.hex()}, which is not of the range {span_text(self._span)}. The "
                "feeds of the range end; its log was mixed up with another's"
            )


def routed_output(output: RangeOutput) -> Routed:
    """Return the output as an event, with what decides which feeds receive it."""
    if isinstance(output, _VALUES):
        event = ValueEvent(output.key, output.timestamp, output.value or b"", output.prev_value)
        return Routed(_point(output.key), event, output.omit_in_rangefeeds, output.origin_id)
    if isinstance(output, DeleteRange):
        span = Span(output.start, output.end)
        return Routed(span, DeleteRangeEvent(span, output.timestamp))
    return Routed(output.span, output)


def size_bytes(taken: RangeInput) -> int:
    """Return how many bytes are charged for an input while feeds hold its outputs."""
    if isinstance(taken, SSTableEvent):
        return EVENT_BYTES + len(taken.data)
    if isinstance(taken, Timestamp | Init | Registration):
        return EVENT_BYTES
    return EVENT_BYTES + sum(map(_op_bytes, taken))


def _op_bytes(op: Op) -> int:
    if isinstance(op, _VALUES):
        return EVENT_BYTES + len(op.key) + len(op.value or b"") + len(op.prev_value or b"")
    return EVENT_BYTES


def _point(key: bytes) -> Span:
    """Return the span that has only this key."""
    return Span(key, key + b"\x00")


def span_text(span: Span) -> str:
    """Return the span for a sentence, with keys in hexadecimal."""
    return f"[{span.start.hex()}, {span.end.hex()})"

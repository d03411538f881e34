"""Logs of a source whose clocks are wrong at times, which pauses, or whose RangeEnds get lost.

Or in which a range that no feed watches is written by a node whose clock is an hour ahead.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Final

from tests.logs import Record
from tidegate.hlc import NANOS_PER_MS, ZERO, ZERO_CLOSED, ClosedTimestamp, Timestamp
from tidegate.raftlog.decode import decode_entry
from tidegate.raftlog.encode import encode_entry, encode_key
from tidegate.raftlog.entry import (
    NEVER_MUTATED,
    DescriptorUpdate,
    Generation,
    Heartbeat,
    RaftIndex,
    RangeEnd,
    RangeId,
    Snapshot,
    SnapshotReason,
)
from tidegate.spans import Span

#: By how many milliseconds record times are wrong.
_WRONG_MS: Final = (2_000, 31_000, 3_600_000, 10**12, -3_600_000)
_RECORDS_MAX: Final = 6
_AHEAD_MS: Final = 3_600_000
_CLOSED_LAG_MS: Final = 3_000
_FLUTTER_MS: Final = 1_500
_BURST_MAX: Final = 60
_FIRST_ID: Final = 1_000_000


class WrongTimes:
    """Stamps a few records of a log wrongly, or lets their time stand still, each with a ``chance``."""

    def __init__(self, rng: Random, chance: float) -> None:
        self._rng = rng
        self._chance = chance
        self._left = 0
        self._wrong_ms: int | None = None
        self._stands_at = 0

    def stamped(self, record: Record) -> Record:
        """The record, with the time that it arrives with."""
        if not self._left:
            if self._rng.random() >= self._chance:
                return record
            self._left = self._rng.randint(1, _RECORDS_MAX)
            self._wrong_ms = self._rng.choice((*_WRONG_MS, None))
            self._stands_at = record.timestamp
        self._left -= 1
        time_ms = self._stands_at if self._wrong_ms is None else record.timestamp + self._wrong_ms
        return record._replace(timestamp=time_ms)


class HastyRange:
    """A range of log partition ``partition`` of ``partitions`` whose node's clock is an hour ahead.

    Its closed timestamps are ahead too, and its record times flutter. Nobody watches its keys.
    """

    def __init__(self, rng: Random, partition: int, partitions: int) -> None:
        self._rng = rng
        self._id = RangeId(_FIRST_ID * partitions + partition)
        self._span = Span(bytes([0xFE, partition]), bytes([0xFE, partition, 0xFF]))
        self._has_begun = False

    def records(self, now_ms: int) -> Iterator[Record]:
        """Yield what it writes in a burst at ``now_ms``; whoever takes the records numbers them."""
        closed = ClosedTimestamp(Timestamp((now_ms + _AHEAD_MS - _CLOSED_LAG_MS) * NANOS_PER_MS))
        generation, index = Generation(1), RaftIndex(10)
        if not self._has_begun:
            self._has_begun = True
            yield self._record(
                Snapshot(
                    self._id,
                    generation,
                    index,
                    self._span,
                    closed,
                    ZERO,
                    ZERO,
                    (),
                    reason=SnapshotReason.INITIAL,
                    last_mutation=NEVER_MUTATED,
                ),
                now_ms,
            )
        for _ in range(self._rng.randint(1, _BURST_MAX)):
            yield self._record(Heartbeat(self._id, generation, closed, index), now_ms)

    def _record(self, entry: Snapshot | Heartbeat, now_ms: int) -> Record:
        time_ms = now_ms + _AHEAD_MS + self._rng.choice([0, _FLUTTER_MS])
        return Record(0, encode_key(self._id), encode_entry(entry), time_ms)


def in_chunks(snapshot: Snapshot, count: int) -> list[Snapshot]:
    """The same snapshot in ``count`` chunks, its intents dealt out among them."""
    head = snapshot._replace(chunks=count, intents=snapshot.intents[::count])
    rest = [
        head._replace(chunk=number, intents=snapshot.intents[number::count], descriptors=())
        for number in range(1, count)
    ]
    return [head, *rest]


def without_end(record: Record) -> Record:
    """The record; a RangeEnd becomes a heartbeat that closes nothing."""
    entry = decode_entry(record.key, record.value)
    if not isinstance(entry, RangeEnd):
        return record
    beat = Heartbeat(entry.range_id, entry.generation, ZERO_CLOSED, entry.last_index)
    return record._replace(value=encode_entry(beat))


def is_upkeep(record: Record) -> bool:
    """Whether a source that pauses would not have written the record."""
    entry = decode_entry(record.key, record.value)
    if isinstance(entry, Snapshot):
        return entry.reason is SnapshotReason.PERIODIC
    return isinstance(entry, Heartbeat | DescriptorUpdate)

"""Logs of a source whose clocks are wrong at times, which pauses, or whose RangeEnds get lost."""

from __future__ import annotations

from random import Random
from typing import Final

from tests.logs import Record
from tidegate.hlc import ZERO_CLOSED
from tidegate.raftlog.decode import decode_entry
from tidegate.raftlog.encode import encode_entry
from tidegate.raftlog.entry import DescriptorUpdate, Heartbeat, RangeEnd, Snapshot, SnapshotReason

#: By how many milliseconds record times are wrong.
_WRONG_MS: Final = (2_000, 31_000, 3_600_000, 10**12, -3_600_000)
_RECORDS_MAX: Final = 6


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

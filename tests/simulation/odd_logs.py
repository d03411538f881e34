"""Logs of a source whose clocks are wrong at times, which pauses, or whose RangeEnds get lost.

Other logs have a range that no feed watches, written by a node whose clock is an hour ahead. Or their source
crashes in the middle of Snapshots, dates single versions wrongly, or lists an intent without its timestamp.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random
from typing import Final

from tests.logs import Record
from tidegate.hlc import NANOS_PER_MS, ZERO, ZERO_CLOSED, ClosedTimestamp, Timestamp
from tidegate.raftlog.decode import decode_entry
from tidegate.raftlog.encode import encode_entry, encode_key
from tidegate.raftlog.entry import (
    NEVER_MUTATED,
    Command,
    CommitIntent,
    DescriptorUpdate,
    Generation,
    Heartbeat,
    OpenIntent,
    RaftIndex,
    RangeEnd,
    RangeId,
    Snapshot,
    SnapshotReason,
    Trigger,
    TxnId,
    WriteValue,
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
_FAR_MS: Final = 172_800_000
_CHUNKS_MAX: Final = 3
_OFTENER: Final = 25
_MOVES: Final = (Trigger.SPLIT, Trigger.MERGE)


class WrongTimes:
    """Gives a few records of a log a wrong time, or lets their time stand still, each with a ``chance``."""

    def __init__(self, rng: Random, chance: float) -> None:
        self._rng = rng
        self._chance = chance
        self._left = 0
        self._wrong_ms: int | None = None
        self._stands_at = 0

    def stamped(self, record: Record) -> Record:
        """Return the record with the time that it has when it arrives."""
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

    Its closed timestamps are ahead too, and its record times go up and down. No feed watches its keys.
    """

    def __init__(self, rng: Random, partition: int, partitions: int) -> None:
        self._rng = rng
        self._id = RangeId(_FIRST_ID * partitions + partition)
        self._span = Span(bytes([0xFE, partition]), bytes([0xFE, partition, 0xFF]))
        self._has_begun = False

    def records(self, now_ms: int) -> Iterator[Record]:
        """Yield the records that it writes in a burst at ``now_ms``. The caller gives them their offsets."""
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


class FarVersions:
    """Adds to a ``share`` of the commands one version two days ahead.

    Commands of splits and merges get one ``_OFTENER``, because children and heirs may miss the rows of such
    commands. All other ops of such a command are as they should be.
    """

    def __init__(self, rng: Random, share: float) -> None:
        self._rng = rng
        self._share = share
        self._spans: dict[RangeId, Span] = {}

    def arriving(self, record: Record) -> Record:
        """Return the record, with the version that the source may add to it."""
        entry = decode_entry(record.key, record.value)
        if isinstance(entry, Snapshot):
            self._spans[entry.range_id] = entry.span
        if not isinstance(entry, Command) or entry.range_id not in self._spans:
            return record
        has_versions = any(isinstance(op, WriteValue | CommitIntent) for op in entry.ops or ())
        share = self._share * (_OFTENER if entry.trigger in _MOVES else 1)
        if not (has_versions or entry.trigger in _MOVES) or self._rng.random() >= share:
            return record
        far = Timestamp((record.timestamp + _FAR_MS) * NANOS_PER_MS)
        ops = [*(entry.ops or ()), WriteValue(self._spans[entry.range_id].start, far, b"")]
        self._rng.shuffle(ops)
        return record._replace(value=encode_entry(entry._replace(ops=tuple(ops))))


def with_rows_in_triggers(records: Sequence[Record]) -> list[Record]:
    """Return the records. The command of a split or merge gets the ops of the command before it, if that is
    possible."""
    written = list(records)
    last: dict[bytes | None, int] = {}
    for number, record in enumerate(written):
        before = last.get(record.key)
        last[record.key] = number
        if before is None:
            continue
        command, earlier = _command(record), _command(written[before])
        if command is None or earlier is None or command.trigger not in _MOVES:
            continue
        if earlier.trigger is Trigger.NONE and earlier.ops and command.raft_index == earlier.raft_index + 1:
            closed = max(
                (each for each in (earlier.closed, command.closed) if each is not None), default=None
            )
            both = command._replace(ops=(*earlier.ops, *(command.ops or ())), closed=closed)
            written[number] = record._replace(value=encode_entry(both))
            empty = earlier._replace(ops=(), closed=None, write_batch=b"")
            written[before] = written[before]._replace(value=encode_entry(empty))
    return written


def _command(record: Record) -> Command | None:
    entry = decode_entry(record.key, record.value)
    return entry if isinstance(entry, Command) else None


def undated(record: Record) -> Record:
    """Return the record. If it is a Snapshot, it gets one more open intent, without a timestamp."""
    entry = decode_entry(record.key, record.value)
    if not isinstance(entry, Snapshot):
        return record
    intent = OpenIntent(TxnId(bytes(16)), b"anchor", entry.span.start, ZERO)
    return record._replace(value=encode_entry(entry._replace(intents=(*entry.intents, intent))))


def crashed(record: Record, rng: Random) -> list[Record]:
    """Return what a source writes that crashes in the middle of a Snapshot: some of its chunks, and then all
    of them again.

    A record of a Snapshot that has several chunks already is left as it is.
    """
    entry = decode_entry(record.key, record.value)
    if not isinstance(entry, Snapshot) or entry.chunks > 1:
        return [record]
    chunks = [
        record._replace(value=encode_entry(chunk)) for chunk in in_chunks(entry, rng.randint(1, _CHUNKS_MAX))
    ]
    return [*chunks[: rng.randint(1, len(chunks))], *chunks]


def in_chunks(snapshot: Snapshot, count: int) -> list[Snapshot]:
    """The same snapshot in ``count`` chunks, its intents dealt out among them."""
    head = snapshot._replace(chunks=count, intents=snapshot.intents[::count])
    rest = [
        head._replace(chunk=number, intents=snapshot.intents[number::count], descriptors=())
        for number in range(1, count)
    ]
    return [head, *rest]


def without_end(record: Record) -> Record:
    """Return the record. A RangeEnd becomes a heartbeat that closes nothing."""
    entry = decode_entry(record.key, record.value, is_stored=True)
    if not isinstance(entry, RangeEnd):
        return record
    beat = Heartbeat(entry.range_id, entry.generation, ZERO_CLOSED, entry.last_index)
    return record._replace(value=encode_entry(beat))


def is_upkeep(record: Record) -> bool:
    """Whether the record is one that a source does not write while it pauses."""
    entry = decode_entry(record.key, record.value)
    if isinstance(entry, Snapshot):
        return entry.reason is SnapshotReason.PERIODIC
    return isinstance(entry, Heartbeat | DescriptorUpdate)

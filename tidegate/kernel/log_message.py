"""The messages of a batch of log records between Python and the kernel (`kernel/src/log_batch.rs`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from struct import Struct, pack, unpack
from typing import Final

from tidegate.errors import StateError
from tidegate.hlc import ZERO, Timestamp
from tidegate.kernel.instance import RawFollowed, RawNamed
from tidegate.kernel.message import column, read_output
from tidegate.processor.batch import LogRecord
from tidegate.processor.feeds.log_kernel import (
    Anchor,
    Closing,
    Followed,
    LogState,
    MovedRange,
    MovedTxn,
    Named,
    PlainRange,
)
from tidegate.processor.feeds.row_kernel import Taken
from tidegate.processor.log_clock import ClockReading, ClockState, Voice
from tidegate.processor.written_records import LaneOf
from tidegate.raftlog.entry import RaftIndex, RangeId, TxnId
from tidegate.ranges.version import Version

_KEY_BYTES: Final = 8
_TXN: Final = Struct("<16sI")
_RANGE: Final = Struct("<qQQqqqqqqqQqqqqq16sqq")
_CLOCK_NUMBERS: Final = 12
_VOICE_NUMBERS: Final = 5
_BEHIND_THE_CLOCK: Final = 4  # the horizon, the highest version, how many ranges follow
_RANGE_NUMBERS: Final = 15
_TXN_NUMBERS: Final = 9
_VERSION: Final = Struct("<qQqq8I")
#: The size of a previous value that an op does not carry.
_NO_PREVIOUS: Final = (1 << 32) - 1
_NO_TXN_ID: Final = TxnId(bytes(16))
_PENDS_NOT: Final = (0, 0, 0, 0)
_UNSIGNED: Final = (1 << 64) - 1
_new: Final = tuple.__new__
_OTHER: Final = _RANGE.pack(*(0,) * 16, _NO_TXN_ID, 0, 0)


def fitting(records: Sequence[LogRecord], most_bytes: int) -> Sequence[LogRecord]:
    """Return the longest beginning of ``records`` whose values have at most ``most_bytes`` together.

    The first record may have more bytes alone. The result ends before the first record that the kernel
    certainly cannot read. If that is the first record of all, the result is empty.
    """
    size = 0
    for number, record in enumerate(records):
        key, value = record.key, record.value
        if key is None or value is None or len(key) != _KEY_BYTES:
            return records[:number]
        size += len(value)
        if size > most_bytes and number:
            return records[:number]
    return records


def write_records(records: Sequence[LogRecord], most_bytes: int) -> tuple[bytes, int]:
    """Return the message with the records that ``fitting`` chooses, and how many records it has."""
    keys, values = [record.key for record in records], [record.value for record in records]
    try:
        sizes = list(map(len, values))  # type: ignore[arg-type]  # a TypeError for None
        fits = sum(sizes) <= most_bytes and set(map(len, keys)) <= {_KEY_BYTES}  # type: ignore[arg-type]
    except TypeError:
        fits = False
    if not fits:
        records = fitting(records, most_bytes)
        keys, values = keys[: len(records)], values[: len(records)]
        sizes = [len(value or b"") for value in values]
    times = column("q", [record.timestamp for record in records])
    parts = (times, column("I", sizes), *keys, *values)
    return b"".join(parts), len(records)  # type: ignore[arg-type]


def read_named(named: RawNamed) -> Named:
    """Return the ranges and transactions that a batch names."""
    range_ids = unpack(f"<{len(named.range_ids) // 8}q", named.range_ids)
    txns = list(_TXN.iter_unpack(named.txns))
    return Named(
        named.records,
        [RangeId(range_id) for range_id in range_ids],
        [TxnId(txn_id) for txn_id, _ in txns],
        [number for _, number in txns],
    )


def write_state(state: LogState) -> bytes:
    """Return the message that has the state for following the records that were read last."""
    bounds = (bound for each in state.ranges if each is not None for bound in each.span)
    numbers = [len(state.txns)]
    for number, refs, (wall, logical), has_anchor in state.txns:
        numbers += (number, refs, wall, logical, has_anchor)
    return b"".join(
        (
            _clock(state.clock),
            pack("<q", state.believed),
            *map(_range, state.ranges),
            pack(f"<{len(numbers)}q", *numbers),
            *bounds,
        )
    )


def _clock(reading: ClockReading) -> bytes:
    state = reading.state
    numbers = [
        reading.time_ms,
        reading.shown_ms,
        reading.closed_ms,
        state.elapsed_ms,
        state.counted_ms,
        state.hearings,
        state.passed,
        state.fell_at is not None,
        state.fell_at or 0,
        state.others_ms,
        state.below,
        len(state.voices),
    ]
    for voice in state.voices:
        numbers += voice
    return pack(f"<{len(numbers)}q", *numbers)


def _range(plain: PlainRange | None) -> bytes:
    if plain is None:
        return _OTHER
    generation, applied, closed, resolved, high, pending, found, (start, end) = plain
    pends = _PENDS_NOT if pending is None else (1, pending.covers, *pending.closed)
    beside, txn_id = found or (ZERO, _NO_TXN_ID)
    return _RANGE.pack(
        1,
        generation,
        applied,
        *closed,
        *resolved,
        *high,
        *pends,
        found is not None,
        *beside,
        txn_id,
        len(start),
        len(end),
    )


def read_followed(
    followed: RawFollowed, records: bytes, named: Named, lanes: Sequence[LaneOf], taken: Taken
) -> Followed:
    """Return the kernel's result for the records in the message ``records``. Adds the rows to ``taken``."""
    all_numbers = unpack(f"<{len(followed.state) // 8}q", followed.state)
    numbers = iter(all_numbers)
    clock = _read_clock(numbers)
    believed, high = next(numbers), Timestamp(next(numbers), next(numbers))
    # Slices are taken here, for they are faster than an iterator: there may be a range for each record.
    begin = _CLOCK_NUMBERS + _VOICE_NUMBERS * len(clock.state.voices) + _BEHIND_THE_CLOCK
    end = begin + _RANGE_NUMBERS * next(numbers)
    ranges = [_moved_range(all_numbers[at : at + _RANGE_NUMBERS]) for at in range(begin, end, _RANGE_NUMBERS)]
    numbers = islice(all_numbers, end, None)
    txns = [_moved_txn(numbers, records) for _ in range(next(numbers))]
    if any(each.number >= len(named.range_ids) for each in ranges) or any(
        each.number >= len(named.txn_ids) for each in txns
    ):
        raise StateError(
            "the kernel names a range or a transaction that is not in its batch, which is a defect: please "
            "report it. Nothing of the step is written. TIDEGATE_KERNEL=off goes on without the kernel"
        )
    count = len(followed.walls) // 8
    read_output(followed.rows, unpack(f"<{count}q", followed.walls), 0, lanes, taken)
    pairs = iter(unpack(f"<{2 * count}I", followed.places))
    places = list(zip(pairs, pairs, strict=True))
    return Followed(
        followed.taken, clock, believed, high, ranges, txns, places, taken, len(followed.rows.text)
    )


def _read_clock(numbers: Iterator[int]) -> ClockReading:
    time_ms, shown_ms, closed_ms, elapsed_ms, counted_ms, hearings, passed = islice(numbers, 7)
    has_fallen, fell_at, others_ms, below, count = islice(numbers, 5)
    voices = tuple(_voice(*islice(numbers, 5)) for _ in range(count))
    fell = fell_at if has_fallen else None
    state = ClockState(elapsed_ms, counted_ms, hearings, passed, fell, voices, others_ms, below)
    return ClockReading(time_ms, shown_ms, closed_ms, state)


def _voice(range_id: int, shown_ms: int, closed_ms: int, counted_ms: int, heard: int) -> Voice:
    return Voice(RangeId(range_id), shown_ms, closed_ms, counted_ms, heard)


def _moved_range(numbers: tuple[int, ...]) -> MovedRange:
    pends_anew, pends, covers, wall, logical, regressions, heard_ms = numbers[8:]
    pending = Closing(RaftIndex(covers & _UNSIGNED), Timestamp(wall, logical)) if pends else None
    return _new(
        MovedRange,
        (
            numbers[0],
            numbers[1] & _UNSIGNED,
            _new(Timestamp, numbers[2:4]),
            _new(Timestamp, numbers[4:6]),
            _new(Timestamp, numbers[6:8]),
            bool(pends_anew),
            pending,
            regressions,
            heard_ms,
        ),
    )


def _moved_txn(numbers: Iterator[int], records: bytes) -> MovedTxn:
    number, dropped, refs, wall, logical, min_wall, min_logical, at, size = islice(numbers, _TXN_NUMBERS)
    anchor = None if at < 0 else Anchor(records[at : at + size], Timestamp(min_wall, min_logical))
    return MovedTxn(number, bool(dropped), refs, Timestamp(wall, logical), anchor)


def read_versions(found: bytes, records: bytes) -> list[Version]:
    """Return versions from the message ``records``. ``found`` has their places there, from the kernel."""
    return [
        _new(
            Version,
            (
                records[key : key + key_size],
                _new(Timestamp, (wall, logical)),
                records[value : value + value_size],
                None if replaced_size == _NO_PREVIOUS else records[replaced : replaced + replaced_size],
                bool(omitted),
                range_id,
                raft_index,
                ordinal,
            ),
        )
        for (
            range_id,
            raft_index,
            wall,
            logical,
            ordinal,
            omitted,
            key,
            key_size,
            value,
            value_size,
            replaced,
            replaced_size,
        ) in _VERSION.iter_unpack(found)
    ]

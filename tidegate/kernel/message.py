"""The messages of a batch between Python and the kernel (`kernel/src/message.rs`)."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable, Iterator, Sequence
from struct import Struct, unpack
from typing import Final

from tidegate.errors import StateError
from tidegate.hlc import NANOS_PER_MS, ZERO, Timestamp
from tidegate.kernel.instance import RawOutput
from tidegate.processor.batch import SOURCE_HEADER, UnframedRecord
from tidegate.processor.feeds.row_kernel import FeedRecords, Taken
from tidegate.processor.written_records import LaneOf, WrittenPart, WrittenRecords, joined
from tidegate.ranges.version import Version

_REFUSED: Final = 2
#: The size of a previous value that the log does not hold.
_NO_PREVIOUS: Final = 2**32 - 1
_HIGH: Final = Struct("<Qqq")
_FIELDS: Final = 6


def write_versions(versions: Sequence[Version], *, with_previous: bool) -> bytes:
    """Return the message that has these versions, and the values that they replaced if these are wanted."""
    keys, timestamps, values, replaced, omitted, range_ids, raft_indexes, ordinals = zip(
        *versions, strict=True
    )
    walls, logicals = zip(*timestamps, strict=True)
    return b"".join(
        (
            column("q", walls),
            column("q", range_ids),
            column("Q", raft_indexes),
            column("i", logicals),
            column("I", ordinals),
            column("I", map(len, keys)),
            column("I", map(len, values)),
            _sizes(replaced) if with_previous else b"",
            bytes(omitted),
            *keys,
            *values,
            *(filter(None, replaced) if with_previous else ()),
        )
    )


def _sizes(values: Iterable[bytes | None]) -> bytes:
    return column("I", (_NO_PREVIOUS if value is None else len(value) for value in values))


def read_output(
    output: RawOutput, walls: Sequence[int], first: int, lanes: Sequence[LaneOf], taken: Taken
) -> None:
    """Add the kernel's output to ``taken``: the records of a batch's versions from place ``first`` on.

    ``walls`` are the wall times of these versions.
    """
    fields = unpack(f"<{len(output.records) // 4}I", output.records)
    numbers, feeds = fields[::_FIELDS], [lanes[lane].feed for lane in fields[1::_FIELDS]]
    if numbers and max(numbers) >= len(walls):
        raise StateError("the kernel names a version outside its batch, which is a defect: please report it")
    schemed = {lane.feed for lane in lanes if lane.to is not None}
    places: dict[int, list[int]] = {}
    for place, feed in enumerate(feeds):
        places.setdefault(feed, []).append(place)
    for feed, own in places.items():
        records, unframed, before = taken.feeds.get(feed) or FeedRecords([], [], [])
        ours = [first + numbers[place] for place in own]
        part = WrittenPart(own, output.records, output.text, walls, lanes)
        if feed in schemed:
            unframed += _unframed(part)
        else:
            records = joined(records, WrittenRecords([part]))
        taken.feeds[feed] = FeedRecords(records, unframed, before + ours)
    taken.refused.extend(first + number for number in _refused(output.fates))
    for table_id, wall, logical in _HIGH.iter_unpack(output.highs):
        taken.highs[table_id] = max(taken.highs.get(table_id, ZERO), Timestamp(wall, logical))


def _unframed(part: WrittenPart) -> Iterator[UnframedRecord]:
    """Yield a feed's records that are to be framed with the ids of schemas."""
    text = part.text
    for begin, (number, lane, key_end, value_end, header_end, _) in part.own_places():
        _, _, to, constants, empty = part.lanes[lane]
        assert to is not None
        headers = [(SOURCE_HEADER, text[value_end:header_end])] if header_end > value_end else []
        if constants:
            headers += constants
        value = text[key_end:value_end] or empty
        yield UnframedRecord(to, text[begin:key_end], value, part.walls[number] // NANOS_PER_MS, headers)


def _refused(fates: bytes) -> list[int]:
    found: list[int] = []
    at = fates.find(_REFUSED)
    while at >= 0:
        found.append(at)
        at = fates.find(_REFUSED, at + 1)
    return found


def column(code: str, numbers: Iterable[int]) -> bytes:
    """Return the bytes of a message's column: its numbers as `array` has them for ``code``, little-endian."""
    items = array(code, numbers)
    if sys.byteorder == "big":
        items.byteswap()
    return items.tobytes()

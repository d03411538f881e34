"""Output records in the bytes in which a kernel has written them.

A record becomes an object when it is asked for, and nobody keeps the object: the row producer takes each one
apart immediately. A batch of 5,000 records is three objects instead of 35,000, so the garbage collector has
nothing to look at.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice, pairwise
from operator import attrgetter
from struct import Struct
from typing import Final, NamedTuple, Protocol, SupportsIndex, overload, runtime_checkable

from tidegate.hlc import NANOS_PER_MS
from tidegate.processor.batch import SOURCE_HEADER, OutputRecord, SchemedTopic, UnframedRecord

#: A record's version, its lane, the ends of key, value and header in the text, and its partition.
PLACES: Final = Struct("<6I")
_LANE: Final = 1
_HEADER_END: Final = 4
_new: Final = tuple.__new__
_key_of, _value_of = attrgetter("key"), attrgetter("value")


def headers_size(headers: Sequence[tuple[str, bytes]]) -> int:
    """Return about how many bytes headers have: a name counts by its characters."""
    return sum(len(name) + len(value) for name, value in headers)


def row_size(key: bytes, value: bytes | None, headers: Sequence[tuple[str, bytes]]) -> int:
    """Return about how many bytes a record has in key, value and headers."""
    return len(key) + (len(value) if value else 0) + (headers_size(headers) if headers else 0)


def rows_size(rows: Sequence[OutputRecord] | Sequence[UnframedRecord]) -> int:
    """Return the bytes of records, as ``row_size`` counts them. The header that says where a row came from is
    left out for records of the kernel.
    """
    if isinstance(rows, WrittenRecords):
        return rows.bytes
    return sum(row_size(row.key, row.value, row.headers) for row in rows)


def about_size(rows: Sequence[UnframedRecord]) -> int:
    """Return what ``rows_size`` does, about, if all headers are alike. It takes a third of the time."""
    if not rows:
        return 0
    keys, values = map(_key_of, rows), filter(None, map(_value_of, rows))
    return sum(map(len, keys)) + sum(map(len, values)) + len(rows) * headers_size(rows[0].headers)


class LaneOf(NamedTuple):
    """A lane of a plan: the number of its feed, and the parts that all of its records share.

    ``to`` is the topic for records that need the ids of their schemas first. It is ``None`` in all lanes of a
    feed or in none. ``empty`` is the value of a record whose value has no text.
    """

    feed: int
    topic: str
    to: SchemedTopic | None
    headers: tuple[tuple[str, bytes], ...]
    empty: bytes | None


class WrittenPart(NamedTuple):
    """The records of one feed in one answer of a kernel: those with the numbers ``own``.

    ``places`` has ``PLACES`` of each record, also of other feeds' records; ``text`` has the bytes of these
    records, one after the other. ``walls`` are the wall times of the versions.
    """

    own: Sequence[int]
    places: bytes
    text: bytes
    walls: Sequence[int]
    lanes: Sequence[LaneOf]

    def records(self, first: int) -> Iterator[OutputRecord]:
        """Yield the feed's records from index ``first`` on."""
        text, walls, lanes = self.text, self.walls, self.lanes
        for begin, place in self.own_places(first):
            number, lane, key_end, value_end, header_end, partition = place
            _, topic, _, constants, empty = lanes[lane]
            headers = [(SOURCE_HEADER, text[value_end:header_end])] if header_end > value_end else []
            if constants:
                headers += constants
            value = text[key_end:value_end] or empty
            wall_ms = walls[number] // NANOS_PER_MS
            yield _new(OutputRecord, (topic, partition, text[begin:key_end], value, wall_ms, headers))

    @property
    def bytes(self) -> int:
        """The number of bytes of its records in key, value and headers, without those of other feeds."""
        if not self.own:
            return 0
        lane = PLACES.unpack_from(self.places, self.own[0] * PLACES.size)[_LANE]
        # A feed's lanes have the same headers.
        constants = len(self.own) * headers_size(self.lanes[lane].headers)
        if len(self.own) * PLACES.size == len(self.places):
            return len(self.text) + constants
        return constants + sum(place[_HEADER_END] - begin for begin, place in self.own_places())

    def own_places(self, first: int = 0) -> Iterator[tuple[int, tuple[int, ...]]]:
        """Yield where each record begins in the text, and its place, from index ``first`` on."""
        places = self.places
        if first == 0 and len(self.own) * PLACES.size == len(places):
            begin = 0
            for place in PLACES.iter_unpack(places):
                yield begin, place
                begin = place[_HEADER_END]
            return
        for number in islice(self.own, first, None):
            at = number * PLACES.size
            begin = PLACES.unpack_from(places, at - PLACES.size)[_HEADER_END] if number else 0
            yield begin, PLACES.unpack_from(places, at)


class WrittenRecords(Sequence[OutputRecord]):
    """Records of one feed, in log order. It equals any sequence of the same records, and never changes."""

    __slots__ = ("_parts", "_size")
    __hash__ = None  # type: ignore[assignment]  # it equals lists

    def __init__(self, parts: Sequence[WrittenPart]) -> None:
        self._parts = tuple(parts)
        self._size = sum(len(part.own) for part in parts)

    @property
    def bytes(self) -> int:
        """The number of bytes of their texts.

        The memory that they are in may have the records of other feeds too. What is in flight bounds that
        memory.
        """
        return sum(part.bytes for part in self._parts)

    def starting_at(self, first: int) -> Iterator[OutputRecord]:
        """Yield the records from index ``first`` on, without those before it."""
        for part in self._parts:
            if first < len(part.own):
                yield from part.records(first)
            first = max(0, first - len(part.own))

    def of(self, numbers: Sequence[int]) -> WrittenRecords:
        """Return the records with these numbers, which rise."""
        parts: list[WrittenPart] = []
        first = at = 0
        for part in self._parts:
            begin = at
            while at < len(numbers) and numbers[at] < first + len(part.own):
                at += 1
            if at > begin:
                parts.append(part._replace(own=[part.own[number - first] for number in numbers[begin:at]]))
            first += len(part.own)
        return WrittenRecords(parts)

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[OutputRecord]:
        return self.starting_at(0)

    @overload
    def __getitem__(self, at: SupportsIndex) -> OutputRecord: ...
    @overload
    def __getitem__(self, at: slice) -> list[OutputRecord]: ...
    def __getitem__(self, at: SupportsIndex | slice) -> OutputRecord | list[OutputRecord]:
        if isinstance(at, slice):
            return [*self][at]
        return next(self.starting_at(range(self._size)[at]))

    def __add__(self, more: WrittenRecords) -> WrittenRecords:
        return WrittenRecords((*self._parts, *more._parts))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or isinstance(other, str | bytes):
            return NotImplemented
        return len(self) == len(other) and all(ours == its for ours, its in zip(self, other, strict=True))

    def __repr__(self) -> str:
        return repr([*self])


def joined(records: Sequence[OutputRecord], more: Sequence[OutputRecord]) -> Sequence[OutputRecord]:
    """Return both, one after the other. Neither is changed."""
    if isinstance(records, WrittenRecords) and isinstance(more, WrittenRecords):
        return records + more
    if not records:
        return more
    return [*records, *more] if more else records


def some_of(records: Sequence[OutputRecord], numbers: Sequence[int]) -> Sequence[OutputRecord]:
    """Return the records with these numbers, in the order of the numbers."""
    if isinstance(records, WrittenRecords):
        if all(number < next_ for number, next_ in pairwise(numbers)):
            return records.of(numbers)
        records = [*records]
    return [records[number] for number in numbers]


@runtime_checkable
class MadeRecords(Protocol):
    """Records that are made when they are asked for, from any index on."""

    def starting_at(self, first: int) -> Iterator[OutputRecord]:
        """Yield the records from index ``first`` on, without those before it."""


def starting_at(records: Sequence[OutputRecord], first: int) -> Iterator[OutputRecord]:
    """Yield records of any sequence from index ``first`` on."""
    return records.starting_at(first) if isinstance(records, MadeRecords) else islice(records, first, None)

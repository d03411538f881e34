"""Versions whose records a kernel has written, for feeds that are given all or only some of them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from tidegate.changefeed.definition.feed import FeedId
from tidegate.errors import FeedError
from tidegate.hlc import ZERO, Timestamp
from tidegate.processor.batch import OutputRecord, UnframedRecord
from tidegate.processor.feeds.emitter import Emission
from tidegate.processor.feeds.partition_feed import PartitionFeed
from tidegate.processor.feeds.row_kernel import FeedRecords, Taken
from tidegate.processor.feeds.version_rows import Decoded
from tidegate.processor.written_records import joined, some_of
from tidegate.ranges.version import Version

_NOT_TAKEN: Final = -1


class FeedEmission(NamedTuple):
    """The records that a feed emits for a batch, and the error at which it stopped, if any."""

    feed: PartitionFeed
    records: Sequence[OutputRecord]
    unframed: list[UnframedRecord]
    error: FeedError | None


class RowByPython(NamedTuple):
    """A version that Python has to take, its place among those that a feed is given, and its row."""

    place: int
    version: Version
    row: Decoded


class TakenVersions:
    """The ``versions`` of a batch that a kernel has ``taken`` for ``receivers``.

    Each version counts as the object that it is: two feeds that are given one version have the same object.
    """

    def __init__(self, receivers: Sequence[PartitionFeed], versions: Sequence[Version], taken: Taken) -> None:
        self._taken = taken
        self._by_feed = {receivers[number].id: records for number, records in taken.feeds.items()}
        self.refused = [versions[number] for number in taken.refused]
        self._firsts: dict[FeedId, Mapping[int, int]] = {}
        refused = frozenset(taken.refused)
        self._numbers = {
            id(version): number for number, version in enumerate(versions) if number not in refused
        }

    def has(self, version: Version) -> bool:
        """Whether the kernel has taken this version, so that its records are here."""
        return id(version) in self._numbers

    def of(self, feeds: Sequence[PartitionFeed]) -> Taken:
        """Return the records of some of the receivers alone."""
        found = ((number, self._by_feed.get(feed.id)) for number, feed in enumerate(feeds))
        return self._taken._replace(
            feeds={number: records for number, records in found if records is not None}
        )

    def given(self, feed: PartitionFeed, versions: Iterable[Version]) -> FeedRecords:
        """Return a receiver's records of some versions, in the order of these.

        Versions that the kernel has not taken have none. The numbers of the records are places among
        ``versions``.
        """
        whole = self._by_feed.get(feed.id)
        if whole is None:
            return FeedRecords([], [], [])
        firsts, of = self._firsts_of(feed.id, whole), self._numbers
        numbers, records, unframed = whole.numbers, whole.records, whole.unframed
        chosen: list[int] = []
        places: list[int] = []
        for place, version in enumerate(versions):
            number = of.get(id(version), _NOT_TAKEN)
            at = firsts.get(number, _NOT_TAKEN)
            while 0 <= at < len(numbers) and numbers[at] == number:
                chosen.append(at)
                places.append(place)
                at += 1
        return FeedRecords(
            some_of(records, chosen) if records else [],
            [unframed[at] for at in chosen] if unframed else [],
            places,
        )

    def _firsts_of(self, feed_id: FeedId, whole: FeedRecords) -> Mapping[int, int]:
        """Return where the records of each version begin among those of a receiver.

        The answer is kept for each feed, because one batch may be given to a feed in many deliveries.
        """
        if feed_id not in self._firsts:
            last = len(whole.numbers) - 1
            self._firsts[feed_id] = dict(zip(reversed(whole.numbers), range(last, -1, -1), strict=True))
        return self._firsts[feed_id]


def joined_taken(parts: Sequence[tuple[int, Taken]]) -> Taken:
    """Return the results of parts of a batch, put together as the result of the batch.

    Each part comes with the place of its first version in the batch.
    """
    feeds: dict[int, FeedRecords] = {}
    refused: list[int] = []
    highs: dict[int, Timestamp] = {}
    for first, part in parts:
        for feed, (records, unframed, numbers) in part.feeds.items():
            before = feeds.get(feed) or FeedRecords([], [], [])
            ours = [first + number for number in numbers]
            feeds[feed] = FeedRecords(
                joined(before.records, records), [*before.unframed, *unframed], before.numbers + ours
            )
        refused += [first + number for number in part.refused]
        for table_id, high in part.highs.items():
            highs[table_id] = max(highs.get(table_id, ZERO), high)
    return Taken(feeds, refused, highs)


def woven(one: FeedRecords, other: FeedRecords) -> FeedRecords:
    """Return the records of both in the order of their numbers. No number is in both, and each list rises."""
    both = FeedRecords([], [], [])
    at = past = 0
    while at < len(one.numbers) or past < len(other.numbers):
        is_last = past == len(other.numbers)
        end = len(one.numbers) if is_last else bisect_left(one.numbers, other.numbers[past], at)
        both = _with(both, one, range(at, end))
        one, other, at, past = other, one, past, end  # a run of the one, then a run of the other
    return both


def _with(before: FeedRecords, more: FeedRecords, places: range) -> FeedRecords:
    """Return the records of ``before``, and after them those of ``more`` at some places."""
    begin, end = places.start, places.stop
    records = some_of(more.records, places) if more.records else []
    return FeedRecords(
        joined(before.records, records),
        before.unframed + more.unframed[begin:end],
        before.numbers + more.numbers[begin:end],
    )


def merged(
    feed: PartitionFeed, given: FeedRecords, refused: Sequence[RowByPython], *, scanned: bool = False
) -> FeedEmission:
    """Return a feed's records: those of the kernel, and Python's of the refused versions in their places.

    ``scanned``: an initial scan found the versions.
    """
    emitter = feed.emitter
    if emitter is None or not refused:
        return FeedEmission(feed, given.records, given.unframed, None)
    into = Emission([], [])
    given = given._replace(records=list(given.records))  # parts are cut out of it: each record is made once
    begin = 0
    for place, version, row in refused:
        end = begin
        while end < len(given.numbers) and given.numbers[end] < place:
            end += 1
        _extend(into, given, begin, end)
        begin = end
        error = emitter.emit([version], [row], into, scanned=scanned)
        if error is not None:
            return FeedEmission(feed, into.records, into.unframed, error)
    _extend(into, given, begin, len(given.numbers))
    return FeedEmission(feed, into.records, into.unframed, None)


def _extend(into: Emission, given: FeedRecords, begin: int, end: int) -> None:
    """Append records of a kernel; a feed has them in one of the two forms."""
    into.records.extend(given.records[begin:end])
    into.unframed.extend(given.unframed[begin:end])

"""Records that a kernel has made, cut and put together again: nothing is lost, doubled or moved."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.feeds import WITH_MARKERS, activation
from tests.hand_log import HandTable, at
from tidegate.changefeed.encoding.confluent import RecordSchemas, SubjectSchema
from tidegate.errors import RowError
from tidegate.hlc import ZERO, Timestamp
from tidegate.processor.batch import OutputRecord, SchemedTopic, UnframedRecord
from tidegate.processor.feeds.partition_feed import PartitionFeed
from tidegate.processor.feeds.row_kernel import FeedRecords, Taken
from tidegate.processor.feeds.taken_versions import (
    FeedEmission,
    RowByPython,
    TakenVersions,
    joined_taken,
    merged,
    woven,
)
from tidegate.processor.feeds.version_rows import TableRowError
from tidegate.raftlog.entry import RaftIndex, RangeId
from tidegate.ranges.version import Version
from tidegate.rows import Row

_TABLE: Final = HandTable.of(104, "t")
_TO: Final = SchemedTopic("t", 1, RecordSchemas(SubjectSchema("t-key", "k"), SubjectSchema("t-value", "v")))


def _feed(name: str) -> PartitionFeed:
    message = activation([_TABLE.descriptor], WITH_MARKERS, feed_id=name)
    feed = PartitionFeed(message, None)
    feed.activate(message)
    return feed


#: The feeds of the kernel's plan. The first one's records are framed, the second one's are not, and the last
#: one is never given anything.
_FEEDS: Final = [_feed("framed"), _feed("unframed"), _feed("idle")]


def _version(number: int) -> Version:
    return Version(b"", at(number % 7), b"", None, False, RangeId(7), RaftIndex(number), 0)


def _versions(numbers: Sequence[int]) -> list[Version]:
    return list(map(_version, numbers))


def _record(number: int, part: int = 0) -> OutputRecord:
    return OutputRecord("t", 0, b"%d" % number, b"%d" % part, 0, [])


def _unframed(number: int, part: int = 0) -> UnframedRecord:
    return UnframedRecord(_TO, b"%d" % number, b"%d" % part, 0, [])


def _copies(number: int) -> int:
    """How many records the first feed gets of a version: some are deletions with a tombstone."""
    return number % 3


def _is_refused(number: int) -> bool:
    return number % 5 == 0


def _taken(versions: Sequence[Version]) -> Taken:
    """What a plain kernel makes of versions."""
    framed, unframed = FeedRecords([], [], []), FeedRecords([], [], [])
    refused, highs = list[int](), dict[int, Timestamp]()
    for place, version in enumerate(versions):
        number = int(version.raft_index)
        if _is_refused(number):
            refused.append(place)
            continue
        table_id = 104 + number % 2
        highs[table_id] = max(version.timestamp, highs.get(table_id, ZERO))
        framed = framed._replace(
            records=[*framed.records, *(_record(number, part) for part in range(_copies(number)))],
            numbers=framed.numbers + [place] * _copies(number),
        )
        if number % 2:
            unframed.unframed.append(_unframed(number))
            unframed.numbers.append(place)
    feeds = {number: found for number, found in enumerate((framed, unframed)) if found.numbers}
    return Taken(feeds, refused, highs)


_NUMBERS: Final = st.lists(st.integers(0, 20), max_size=12)


@given(_NUMBERS, st.lists(st.integers(0, 12), max_size=3))
def test_the_results_of_parts_are_the_result_of_the_batch(numbers: list[int], cuts: list[int]) -> None:
    versions = _versions(numbers)
    ends = sorted({0, *(min(cut, len(versions)) for cut in cuts), len(versions)})
    parts = [
        (begin, _taken(versions[begin:end])) for begin, end in zip(ends, [*ends[1:], ends[-1]], strict=True)
    ]
    assert joined_taken(parts) == _taken(versions)


def test_the_highest_timestamp_of_each_table_counts_whichever_part_it_is_in() -> None:
    versions = _versions([1, 6, 2, 4])  # of the tables 105, 104, 104, 104
    for begin in range(5):
        parts = [(0, _taken(versions[:begin])), (begin, _taken(versions[begin:]))]
        assert joined_taken(parts).highs == {105: at(1), 104: at(6)}


@given(_NUMBERS, st.lists(st.integers(0, 11), max_size=12))
def test_a_feed_is_given_the_records_of_the_versions_that_it_is_given_in_their_order(
    numbers: list[int], given_places: list[int]
) -> None:
    """Each version counts as the object that it is, so one that is equal to a taken one has no records."""
    versions = _versions(numbers)
    taken = TakenVersions(_FEEDS, versions, _taken(versions))
    mine = [versions[place] for place in dict.fromkeys(given_places) if place < len(versions)]
    mine[1:1] = [_version(7)]
    known = {id(version) for version in versions if not _is_refused(version.raft_index)}
    assert [taken.has(version) for version in mine] == [id(version) in known for version in mine]
    of_known = [
        (place, int(version.raft_index)) for place, version in enumerate(mine) if id(version) in known
    ]
    for _ in range(2):
        records, unframed, places = taken.given(_FEEDS[0], mine)
        told = [
            (place, _record(number, part)) for place, number in of_known for part in range(_copies(number))
        ]
        assert [*zip(places, records, strict=True)] == told
        assert unframed == []
        records, unframed, places = taken.given(_FEEDS[1], mine)
        assert [*zip(places, unframed, strict=True)] == [
            (place, _unframed(number)) for place, number in of_known if number % 2
        ]
        assert records == []
        assert taken.given(_FEEDS[2], mine) == FeedRecords([], [], [])


def test_some_of_the_receivers_get_their_records_by_their_new_numbers() -> None:
    versions = _versions([1, 2, 5, 7])
    whole = _taken(versions)
    taken = TakenVersions(_FEEDS, versions, whole)
    assert taken.refused == [versions[2]]
    assert taken.of([_FEEDS[1]]) == whole._replace(feeds={0: whole.feeds[1]})
    assert taken.of([_FEEDS[2], _FEEDS[1], _FEEDS[0]]) == whole._replace(
        feeds={1: whole.feeds[1], 2: whole.feeds[0]}
    )


def _records_at(places: Sequence[int], *, framed: bool) -> FeedRecords:
    places = sorted(places)
    if framed:
        return FeedRecords([_record(place, part) for part, place in enumerate(places)], [], [*places])
    return FeedRecords([], [_unframed(place, part) for part, place in enumerate(places)], [*places])


@given(st.dictionaries(st.integers(0, 15), st.tuples(st.booleans(), st.integers(1, 2))), st.booleans())
def test_records_of_two_kernels_are_woven_in_the_order_of_their_versions(
    which: dict[int, tuple[bool, int]], framed: bool
) -> None:
    """No version has records of both."""
    one, other = (
        _records_at(
            [place for place, (is_one, count) in which.items() if is_one == mine for _ in range(count)],
            framed=framed,
        )
        for mine in (True, False)
    )
    both = woven(one, other)
    told = sorted(
        [
            *zip(one.numbers, one.records or one.unframed, strict=True),
            *zip(other.numbers, other.records or other.unframed, strict=True),
        ],
        key=lambda each: each[0],
    )
    assert [*zip(both.numbers, both.records if framed else both.unframed, strict=True)] == told
    assert not (both.unframed if framed else both.records)


def _row(number: int) -> Row:
    return Row(_TABLE.descriptor, (number,), (number, "by Python"))


@pytest.mark.parametrize("places", [(), (0,), (1,), (4,), (0, 1, 2), (1, 3, 6)])
@pytest.mark.parametrize("refused", [(0,), (2, 3), (5, 9), (0, 4, 7)])
def test_rows_by_python_stand_among_the_kernels_where_their_versions_stand(
    places: tuple[int, ...], refused: tuple[int, ...]
) -> None:
    of_kernel = [place for place in places if place not in refused]
    given_records = _records_at(of_kernel, framed=True)
    by_python = [RowByPython(place, _version(10 + place), _row(10 + place)) for place in refused]
    feed, records, unframed, error = merged(_FEEDS[0], given_records, by_python)
    told = sorted(
        [*((place, b"%d" % place) for place in of_kernel), *((p, b"[%d]" % (10 + p)) for p in refused)]
    )
    assert [record.key for record in records] == [key for _, key in told]
    assert (feed, unframed, error) == (_FEEDS[0], [], None)


def test_a_feed_stops_at_a_row_that_python_cannot_read_and_keeps_what_stands_before_it() -> None:
    failure = TableRowError(104, _version(3), RowError("it is damaged"))
    by_python = [RowByPython(place, _version(place), _row(place)) for place in (1, 3, 5)]
    by_python[1] = by_python[1]._replace(row=failure)
    emitted = merged(_FEEDS[0], _records_at([0, 2, 2, 4, 6], framed=True), by_python)
    assert [record.key for record in emitted.records] == [b"0", b"[1]", b"2", b"2"]
    assert emitted.error is failure
    unframed = merged(_FEEDS[0], _records_at([0, 2, 4], framed=False), by_python[1:])
    assert [record.key for record in unframed.unframed] == [b"0", b"2"]


def test_rows_that_a_scan_found_are_emitted_wherever_the_feed_starts() -> None:
    message = activation([_TABLE.descriptor], start=at(5))
    feed = PartitionFeed(message, None)
    feed.activate(message)
    by_python = [RowByPython(1, _version(3), _row(3))]
    for scanned in (False, True):
        emitted = merged(feed, _records_at([0, 2], framed=True), by_python, scanned=scanned)
        assert [record.key for record in emitted.records] == [b"0", *([b"[3]"] if scanned else []), b"2"]


@pytest.mark.parametrize("has_failed", [False, True])
def test_without_rows_by_python_the_kernels_records_are_a_feeds_records(has_failed: bool) -> None:
    feed, records = _feed("feed"), _records_at([0, 1], framed=True)
    by_python = [RowByPython(2, _version(3), _row(3))] if has_failed else []
    if has_failed:
        feed.fail("it has failed")
    assert merged(feed, records, by_python) == FeedEmission(feed, records.records, [], None)

"""Reckoned bytes of rows: those of the feeds that are active now, by the widest versions of their tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.feeds import WITH_MARKERS, activation
from tests.hand_log import HandTable, at, update_of
from tests.unit.processor.logs import OTHER, PLAIN
from tidegate.changefeed.definition.feed import FIRST_EPOCH, FeedId
from tidegate.changefeed.definition.options import FeedOptions, Format
from tidegate.changefeed.encoding.row_width import NO_LENGTHS, TableLengths, row_width, table_lengths
from tidegate.hlc import ZERO
from tidegate.processor.feeds.feed_table import PartitionFeeds
from tidegate.processor.feeds.partition_feed import PartitionFeed
from tidegate.processor.feeds.row_reckoning import RowReckoning
from tidegate.processor.feeds.version_rows import PartitionRows
from tidegate.raftlog.entry import KeyValue
from tidegate.rows import TableDescriptor

#: Most versions have more bytes than this in the log.
_VERSION_BYTES: Final = 40
_WIDE: Final = PLAIN.widened(5)
_LISTS: Final = HandTable.of(105, "other", "id INT, v INTERVAL")
_JSON, _DIFF = WITH_MARKERS, FeedOptions(diff=True)
_AVRO: Final = FeedOptions(format=Format.AVRO)

#: The feeds that are active, each with its options and the ids of its tables.
_Active: TypeAlias = dict[str, tuple[FeedOptions, tuple[int, ...]]]


def _begin(
    feeds: PartitionFeeds, name: str, options: FeedOptions, tables: Sequence[HandTable]
) -> PartitionFeed:
    message = activation([table.descriptor for table in tables], options, feed_id=name)
    feed = PartitionFeed(message, None)
    feed.activate(message)
    feeds.answer(feed)
    return feed


def _partition(*tables: HandTable) -> tuple[PartitionRows, PartitionFeeds, RowReckoning]:
    rows, feeds = PartitionRows(), PartitionFeeds(0)
    for table in tables:
        rows.learn(update_of(table.descriptor))
    return rows, feeds, RowReckoning(rows, feeds)


def _kv(table: HandTable, previous: bytes | None = None) -> KeyValue:
    key, value = table.pair(1, "v")
    return KeyValue(key, at(1), value, previous)


def _bytes_of(table: HandTable, options: FeedOptions, size: int) -> int:
    return row_width(table_lengths(table.descriptor), options).of(size)


# ---- of one feed ----


@pytest.mark.parametrize("options", [_JSON, _DIFF, _AVRO], ids=["json", "diff", "avro"])
def test_the_rows_of_a_feed_are_reckoned_by_its_options_and_the_widest_version(options: FeedOptions) -> None:
    rows, feeds, reckoning = _partition(PLAIN)
    feed = _begin(feeds, "feed", options, [PLAIN])
    key = PLAIN.key(1)
    assert reckoning.of_feed(feed, key, 50) == _bytes_of(PLAIN, options, 50)
    rows.learn(update_of(_WIDE.descriptor))
    assert reckoning.of_feed(feed, key, 50) == _bytes_of(_WIDE, options, 50)
    rows.learn(update_of(replace(PLAIN.descriptor, version=3, modified=at(6))))
    assert reckoning.of_feed(feed, key, 50) == _bytes_of(_WIDE, options, 50)


def test_each_feed_has_a_width_of_its_own_for_each_table() -> None:
    _, feeds, reckoning = _partition(PLAIN, _LISTS)
    one = _begin(feeds, "one", _JSON, [PLAIN, OTHER])
    two = _begin(feeds, "two", _DIFF, [PLAIN, OTHER])
    for _ in range(2):
        for feed, options in ((one, _JSON), (two, _DIFF)):
            for table in (PLAIN, _LISTS):
                key = OTHER.key(1) if table is _LISTS else PLAIN.key(1)
                assert reckoning.of_feed(feed, key, 50) == _bytes_of(table, options, 50)


def test_keys_of_no_table_and_feeds_that_have_failed_make_no_rows() -> None:
    _, feeds, reckoning = _partition(PLAIN)
    feed = _begin(feeds, "feed", _JSON, [PLAIN])
    assert reckoning.of_feed(feed, b"\x02own", 50) == 0
    assert reckoning.fitting(0, None, [KeyValue(b"\x02own", at(1), b"value")], 0) == 1
    feed.fail("it has failed")
    feeds.answer(feed)
    assert reckoning.of_feed(feed, PLAIN.key(1), 50) == 0


# ---- of a scan's rows ----


@pytest.mark.parametrize("previous", [None, b"what it replaced"])
def test_so_many_rows_of_a_scan_fit_as_make_no_more_than_the_bytes(previous: bytes | None) -> None:
    _, feeds, reckoning = _partition(PLAIN, OTHER)
    one = _begin(feeds, "one", _JSON, [PLAIN])
    _begin(feeds, "two", _DIFF, [PLAIN])
    _begin(feeds, "three", _DIFF, [OTHER])
    row = _kv(PLAIN, previous)
    size = len(row.key) + len(row.value) + len(previous or b"")
    rows = [row] * 5
    widths = [row_width(table_lengths(PLAIN.descriptor), options) for options in (_JSON, _DIFF)]
    of_both = sum(each.fixed for each in widths) + int(sum(each.times for each in widths) * size)
    for feed, each in ((one, _bytes_of(PLAIN, _JSON, size)), (None, of_both)):
        told = [
            reckoning.fitting(room, feed, rows, first)
            for first in (0, 3)
            for room in (0, each - 1, each, 2 * each - 1, 2 * each, 9 * each)
        ]
        assert told == [0, 0, 1, 1, 2, 5, 3, 3, 4, 4, 5, 5]
    assert reckoning.fitting(0, one, [], 0) == 0
    assert reckoning.fitting(0, None, [_kv(HandTable.of(106, "unknown"))], 0) == 1


# ---- of all feeds ----


def _told_longest(active: _Active, lengths: dict[int, TableLengths]) -> float:
    """The reference: all feeds of each table together, and the worst of the tables."""
    longest = 0.0
    for table_id in {table_id for _, tables in active.values() for table_id in tables}:
        widths = [
            row_width(lengths.get(table_id, NO_LENGTHS), options)
            for options, tables in active.values()
            if table_id in tables and table_id in lengths
        ]
        longest = max(
            longest,
            sum(each.fixed for each in widths) / _VERSION_BYTES + sum(each.times for each in widths),
        )
    return longest


_VERSIONS: Final = {
    "plain": PLAIN.descriptor,
    "wide": _WIDE.descriptor,
    "narrow": replace(PLAIN.descriptor, version=3, modified=at(6)),
    "other": _LISTS.descriptor,
}
_EVENTS: Final = st.one_of(
    st.tuples(st.sampled_from(("one", "two")), st.sampled_from((_JSON, _DIFF, _AVRO)), st.integers(1, 3)),
    st.tuples(st.sampled_from(("one", "two")), st.none(), st.just(0)),
    st.tuples(st.sampled_from(tuple(_VERSIONS)), st.none(), st.just(0)),
)


@given(st.lists(st.tuples(_EVENTS, st.booleans()), max_size=12))
def test_the_longest_rows_are_those_of_the_worst_table_by_the_feeds_and_versions_that_there_are(
    events: list[tuple[tuple[str, FeedOptions | None, int], bool]],
) -> None:
    """The bool says that somebody asks after the event."""
    rows, feeds, reckoning = _partition()
    active, lengths = _Active(), dict[int, TableLengths]()
    for (name, options, which), is_asked in [*events, (("one", None, 0), True)]:
        if name in _VERSIONS:
            _learn(rows, lengths, _VERSIONS[name])
        else:
            feeds.remove(FeedId(name), FIRST_EPOCH, ZERO)
            active.pop(name, None)
            if options is not None:
                tables = [table for bit, table in ((1, PLAIN), (2, OTHER)) if which & bit]
                _begin(feeds, name, options, tables)
                active[name] = options, tuple(table.descriptor.id for table in tables)
        if is_asked:
            assert reckoning.longest == pytest.approx(_told_longest(active, lengths))


def _learn(rows: PartitionRows, lengths: dict[int, TableLengths], version: TableDescriptor) -> None:
    rows.learn(update_of(version))
    known = lengths.get(version.id, NO_LENGTHS)
    lengths[version.id] = known.widest(table_lengths(version))


def test_a_feed_that_ends_or_another_table_changes_only_what_it_concerns() -> None:
    rows, feeds, reckoning = _partition(PLAIN, _LISTS)
    active: _Active = {"one": (_JSON, (104,)), "two": (_DIFF, (104, 105))}
    lengths = {table.descriptor.id: table_lengths(table.descriptor) for table in (PLAIN, _LISTS)}
    _begin(feeds, "one", _JSON, [PLAIN])
    _begin(feeds, "two", _DIFF, [PLAIN, OTHER])
    assert reckoning.longest == pytest.approx(_told_longest(active, lengths))
    _learn(rows, lengths, _WIDE.descriptor)
    assert reckoning.longest == pytest.approx(_told_longest(active, lengths))
    both = reckoning.fitting(1_000, None, [_kv(PLAIN)] * 9, 0)
    feeds.remove(FeedId("two"), FIRST_EPOCH, ZERO)
    del active["two"]
    assert reckoning.longest == pytest.approx(_told_longest(active, lengths))
    assert reckoning.fitting(1_000, None, [_kv(PLAIN)] * 9, 0) > both
    feeds.remove(FeedId("one"), FIRST_EPOCH, ZERO)
    assert reckoning.longest == 0

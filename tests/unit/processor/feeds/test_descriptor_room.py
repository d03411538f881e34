"""Table descriptors of a partition: what is forgotten, what is refused, and that nothing else stops.

docs/protocols/descriptors.md has the rules.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import pytest

from tests.feeds import activation
from tests.hand_log import HandLog, HandRange, HandTable, at, intent, txn, update_of
from tests.unit.processor.driving import Driven, StoredState
from tests.unit.processor.partitions import Partitions
from tidegate.changefeed.definition.feed import FeedId
from tidegate.changefeed.definition.options import FeedOptions
from tidegate.changefeed.lifecycle.control import Register
from tidegate.errors import DescriptorConflict, EncodingError
from tidegate.hlc import ZERO, Timestamp
from tidegate.processor.batch import StateTable
from tidegate.processor.config import ProcessorConfig
from tidegate.processor.feeds.descriptor_room import VERSION_BYTES, DescriptorLimits, DescriptorRoom
from tidegate.processor.feeds.version_rows import PartitionRows
from tidegate.processor.processor import PartitionProcessor
from tidegate.processor.state import state_pb2 as pb
from tidegate.processor.state.row_shape import is_shaped
from tidegate.processor.state.stored_frame import pack
from tidegate.raftlog.entry import (
    DescriptorUpdate,
    Generation,
    OpenIntent,
    Parent,
    RaftIndex,
    RangeId,
    SnapshotReason,
    Trigger,
)
from tidegate.ranges.version import Version
from tidegate.rows import Column, Row, TableDescriptor, parse_sql_type
from tidegate.rows.stored_descriptor import COLUMNS_MAX, encode_descriptor
from tidegate.rows.table_key import index_span
from tidegate.spans import Span

_TABLE = HandTable.of(104, "t", "id INT, v STRING")
#: Each new version has the partition look for unneeded ones.
_EAGER = DescriptorLimits(kept_bytes=0, look_bytes=0, grows=0)


def _version(number: int, of: TableDescriptor = _TABLE.descriptor, index: int = 1) -> TableDescriptor:
    """Version ``number``, valid from second ``number`` on. Its second column has another name."""
    first, second = of.columns
    columns = (first, replace(second, name=f"v{number:03}"))
    return replace(of, version=number, modified=at(number), columns=columns, primary_index_id=index)


_SIZE = len(encode_descriptor(_version(1))) + VERSION_BYTES


def _rows(limits: DescriptorLimits = _EAGER, lowest: Timestamp = ZERO) -> PartitionRows:
    rows = PartitionRows(limits)
    rows.room.lowest_read = lambda: lowest
    return rows


def _known(rows: PartitionRows, table_id: int = 104) -> list[int]:
    return [each.version for each in rows.catalog.versions(table_id)]


def _learn(rows: PartitionRows, *numbers: int, lowest: Timestamp | None = None) -> None:
    for number in numbers:
        rows.learn(update_of(_version(number)), "", lowest)


# ---- what is forgotten ----


def test_the_newest_version_at_the_lowest_time_that_is_read_and_all_later_ones_are_kept() -> None:
    rows = _rows(lowest=at(3.5))
    _learn(rows, 1, 2, 3, 4, 5)
    assert _known(rows) == [3, 4, 5]
    assert rows.catalog.at(104, at(3.6)).descriptor.version == 3
    assert rows.room.used_bytes == 3 * _SIZE


def test_nothing_is_forgotten_while_rows_of_any_time_may_be_read() -> None:
    rows = _rows()
    _learn(rows, 1, 2, 3, 4, 5)
    assert _known(rows) == [1, 2, 3, 4, 5]


def test_nothing_is_forgotten_where_descriptors_take_little() -> None:
    rows = _rows(DescriptorLimits(kept_bytes=6 * _SIZE, look_bytes=0, grows=0), lowest=at(3.5))
    _learn(rows, 1, 2, 3, 4, 5)
    assert _known(rows) == [1, 2, 3, 4, 5]
    _learn(rows, 6, 7)
    assert _known(rows) == [3, 4, 5, 6, 7]


def test_a_copy_of_a_forgotten_version_does_nothing() -> None:
    rows = _rows(lowest=at(3.5))
    _learn(rows, 1, 2, 3, 4, 5)
    rows.raise_high(104, at(9))
    seen = rows.versions
    _learn(rows, 1, 2)
    _learn(rows, 1, 2, lowest=at(3.1))
    assert (_known(rows), rows.versions) == ([3, 4, 5], seen)
    assert not rows.unfit(104)


def test_a_snapshot_of_which_rows_need_a_forgotten_version_brings_it_back_and_no_feed_fails() -> None:
    """Such a range comes from another partition. The versions have read rows before they were forgotten."""
    rows = _rows(lowest=at(3.5))
    _learn(rows, 1, 2, 3, 4, 5)
    rows.raise_high(104, at(9))
    rows.room.lowest_read = lambda: at(1.5)
    _learn(rows, 1, 2, 3, lowest=at(1.5))
    assert _known(rows) == [1, 2, 3, 4, 5]
    assert rows.catalog.at(104, at(1.6)).descriptor.version == 1


def test_what_a_snapshot_brings_back_is_not_forgotten_while_the_snapshot_is_read() -> None:
    """Its range has not taken it yet, so the other ranges alone would have the versions forgotten again."""
    rows = _rows(lowest=at(3.5))
    _learn(rows, 1, 2, 3, 4, 5)
    _learn(rows, 1, 2, 3, 4, 5, 6, lowest=at(1.5))
    assert _known(rows) == [1, 2, 3, 4, 5, 6]


def test_a_version_that_comes_late_is_told_after_older_ones_were_forgotten() -> None:
    rows = _rows(lowest=at(4.5))
    _learn(rows, 1, 4)
    _learn(rows, 5)
    assert _known(rows) == [4, 5]
    rows.raise_high(104, at(9))
    with pytest.raises(DescriptorConflict, match="were read before it arrived"):
        _learn(rows, 2)


def test_a_table_that_is_made_anew_with_the_number_of_a_forgotten_version_is_refused() -> None:
    rows = _rows(lowest=at(3.5))
    _learn(rows, 1, 2, 3, 4, 5)
    with pytest.raises(DescriptorConflict, match="not after version 1 at"):
        rows.learn(update_of(replace(_version(1), modified=at(20))))
    assert "version 1 of table 104" in rows.unfit(104)
    _learn(rows, 2)
    assert _known(rows) == [3, 4, 5]


def test_primary_indexes_of_forgotten_versions_are_known() -> None:
    rows = _rows(lowest=at(8))
    for number, index in ((1, 1), (2, 1), (3, 4), (6, 4), (7, 2), (8, 2), (9, 2)):
        rows.learn(update_of(_version(number, index=index)))
    assert _known(rows) == [8, 9]
    spans = {index: index_span(104, index) for index in (1, 2, 4)}
    assert rows.primary_keys(104, at(1), at(20)) == (spans[1], spans[4], spans[2])
    assert rows.primary_keys(104, at(5), at(7)) == (spans[4], spans[2])
    assert rows.primary_keys(104, at(10), at(20)) == (spans[2],)
    assert rows.primary_keys(104, at(0.5), at(20)) is None


def _restored(rows: PartitionRows, state: dict[bytes, bytes]) -> PartitionRows:
    again = PartitionRows(_EAGER)
    again.restore(state.items())
    again.room.lowest_read = rows.room.lowest_read
    return again


def test_what_was_forgotten_is_forgotten_after_a_restart() -> None:
    rows, state = _rows(lowest=at(3.5)), dict[bytes, bytes]()
    for number in (1, 2, 3, 4, 5):
        rows.learn(update_of(_version(number, index=number)))
        for table, key, value in rows.freeze():
            assert is_shaped(table, key, value), "else a changelog's reader takes it for a foreign record"
            if value is None:
                del state[key]
            else:
                state[key] = value
        assert len(state) == len(rows)
        rows = _restored(rows, state)
        assert len(state) == len(rows)
    _learn(rows, 1, 2)
    assert _known(rows) == [3, 4, 5]
    assert len(rows.primary_keys(104, at(1), at(9)) or ()) == 5


def test_what_is_left_of_forgotten_versions_is_a_format() -> None:
    rows = _rows(lowest=at(3.5))
    for number, index in ((1, 1), (2, 1), (3, 4), (4, 4)):
        rows.learn(update_of(_version(number, index=index)))
    left = {key: value for _, key, value in rows.freeze() if key[:1] == b"p"}
    first = pb.TablePast(version=2, indexes=[pb.PastIndex(wall=at(1).wall, index_id=1)])
    assert left == {b"p" + (104).to_bytes(8, "big"): pack(first)}
    assert [(value or b"").hex() for value in left.values()] == ["020802120c088094938ee79fe7cb171801"]


# ---- what is refused ----


def _other(table_id: int) -> DescriptorUpdate:
    return update_of(HandTable.of(table_id, f"t{table_id}", "id INT, v STRING").descriptor)


def test_a_descriptor_with_too_many_columns_is_refused_by_name_and_one_that_is_stored_is_read() -> None:
    columns = [Column(number, "", parse_sql_type("INT")) for number in range(1, COLUMNS_MAX + 2)]
    wide = replace(_TABLE.descriptor, id=105, columns=tuple(columns))
    rows = _rows()
    with pytest.raises(EncodingError, match="has 10001 columns, and may have 10000"):
        rows.learn(update_of(wide))
    assert "10001 columns" in rows.unfit(105)
    rows.learn(_other(106))
    again = PartitionRows()
    again.restore([(b"d" + bytes(16), encode_descriptor(wide))])
    again.learn(update_of(wide))
    assert not again.unfit(105)
    assert len(again.catalog.newest_of(105).columns) == COLUMNS_MAX + 1


def test_a_table_for_which_there_is_no_room_is_refused_and_a_wanted_one_goes_on() -> None:
    rows = _rows(DescriptorLimits(0, 0, 0, unwanted_bytes=3 * _SIZE, wanted_bytes=5 * _SIZE))
    rows.is_wanted = lambda table_id: table_id == 104
    _learn(rows, 1, 2, 3)
    with pytest.raises(DescriptorConflict, match="there is no room for its"):
        rows.learn(_other(105))
    assert "no room" in rows.unfit(105)
    _learn(rows, 4, 5)
    with pytest.raises(DescriptorConflict, match="there is no room for its"):
        _learn(rows, 6)
    assert _known(rows) == [1, 2, 3, 4, 5]
    _learn(rows, 4, 5)


def test_a_refused_table_is_taken_once_there_is_room_again() -> None:
    rows = _rows(DescriptorLimits(0, 0, 0, unwanted_bytes=3 * _SIZE))
    _learn(rows, 1, 2, 3)
    with pytest.raises(DescriptorConflict):
        rows.learn(_other(105))
    rows.room.lowest_read = lambda: at(3)
    rows.learn(_other(105))
    assert (_known(rows), rows.unfit(105)) == ([3], "")


def test_rows_of_a_refused_version_are_not_read_by_an_older_one_when_a_later_one_is_taken() -> None:
    limits = DescriptorLimits(0, 0, 0, unwanted_bytes=_SIZE)
    rows, state = _rows(limits), dict[bytes, bytes]()
    _learn(rows, 1)
    with pytest.raises(DescriptorConflict, match="no room"):
        _learn(rows, 3)
    rows.is_wanted = lambda _: True
    _learn(rows, 5)
    for table, key, value in rows.freeze():
        assert is_shaped(table, key, value), "else a changelog's reader takes it for a foreign record"
        if value is not None:
            state[key] = value
    assert len(state) == len(rows)
    assert any(key.startswith(b"r") for key in state)
    again = PartitionRows(limits)
    again.restore(state.items())
    again.is_wanted = rows.is_wanted
    for each in (rows, again):
        assert (each.unfit(104), each.has_refused(104)) == ("", True)
        told = [(table.version, since, is_read) for table, since, is_read in each.read_by(104)]
        assert told == [(1, at(1), True), (1, at(3), False), (5, at(5), True)]
        decoded = []
        for seconds in (2, 3, 4, 5):
            op = _TABLE.put(seconds, 1, "a")
            version = Version(
                op.key, op.timestamp, op.value or b"", None, False, RangeId(7), RaftIndex(11), 0
            )
            decoded += each.decode([version], {104})
        assert [isinstance(row, Row) for row in decoded] == [True, False, False, True]
        assert "version 3 of table t (104)" in str(decoded[1])
        assert each.primary_keys(104, at(1), at(4)) is None
    _learn(again, 3)
    assert [is_read for _, _, is_read in again.read_by(104)] == [True, True, True]
    rows.room.lowest_read = lambda: at(6)
    _learn(rows, 7)
    assert not [key for _, key, value in rows.freeze() if key.startswith(b"r") and value is not None]
    assert [is_read for _, _, is_read in rows.read_by(104)] == [True, True]


_DAMAGED: Final = b"\1\xff"


def test_there_is_room_after_a_restart_where_there_was_some_before() -> None:
    limits = DescriptorLimits(6 * _SIZE, 4 * _SIZE, 64 << 10, 2, 6 * _SIZE, 12 * _SIZE)
    rows = _rows(limits)
    _learn(rows, 1, 2, 3, 4, 5, 6)
    state = [(key, value) for _, key, value in rows.freeze() if value is not None]
    again = PartitionRows(limits)
    again.restore(state)
    for each in (rows, again):
        each.room.lowest_read = lambda: at(5.5)
        _learn(each, 7)
        assert _known(each) == [5, 6, 7]


def test_a_feed_that_is_to_begin_on_a_table_that_cannot_be_read_fails() -> None:
    log = HandLog(1)
    log.write(update_of(_version(1)))
    log.open_range(7, _TABLE.span, close=4)
    driven = _driven(_EAGER)
    driven.run(log.partitions[0], 1)
    options = FeedOptions(updated=True, resolved_interval_ns=0, cursor=at(5))
    feed = activation([_version(1)], options, start=at(5))
    driven.control(Register(feed.definition))
    log.write(update_of(_version(2))._replace(descriptor=_DAMAGED))
    driven.run(log.partitions[0], 1)
    driven.control(feed)
    assert any("version 2 of table 104" in cause and "feed" in cause for cause in driven.causes[1:])


def test_copies_of_a_refused_version_end_no_feed_that_does_not_need_it() -> None:
    log = HandLog(1)
    damaged = update_of(_version(2))._replace(descriptor=_DAMAGED)
    described = (update_of(_version(1)), damaged, update_of(_version(3)))
    for each in described:
        log.write(each)
    range_ = log.open_range(7, _TABLE.span, close=4)
    driven = _driven(_EAGER)
    driven.run(log.partitions[0], 1)
    feed = activation([_version(3)], start=at(5))
    driven.control(Register(feed.definition), feed)
    for each in described:
        log.write(each)
    range_.apply(_TABLE.put(8, 1, "a"), close=9)
    driven.run(log.partitions[0], 1)
    assert len(driven.causes) == 1, "the version was refused once"
    assert [row.key for row in driven.rows] == [b"[1]"]


def test_a_table_without_versions_is_read_by_none() -> None:
    assert not [*_rows().read_by(104)]


def test_refused_versions_of_a_table_are_bounded_and_many_count_as_one() -> None:
    rows = _rows(DescriptorLimits(0, 0, 0, unwanted_bytes=_SIZE))
    _learn(rows, 1)
    for number in range(2, 40):
        with pytest.raises(DescriptorConflict):
            _learn(rows, number)
    assert len(rows) == 2 + 8
    rows.is_wanted = lambda _: True
    _learn(rows, 40)
    told = [(table.version, since, is_read) for table, since, is_read in rows.read_by(104)]
    assert told == [(1, at(1), True), (1, at(2), False), (40, at(40), True)]


def test_tables_that_cannot_be_read_are_bounded_and_then_no_other_is_taken() -> None:
    rows = _rows(DescriptorLimits(unfit_tables=2))
    for table_id in (105, 106, 107):
        for _ in range(2):
            with pytest.raises((DescriptorConflict, EncodingError)):
                rows.learn(_other(table_id)._replace(descriptor=b"\1\xff"))
    assert [bool(rows.unfit(table_id)) for table_id in (105, 106, 107)] == [True, True, False]
    with pytest.raises(DescriptorConflict, match="2 tables of the log partition cannot be read"):
        rows.learn(_other(107))
    assert len(rows) == 4  # for each of the two: that it cannot be read, and the version that was refused
    rows.learn(_other(106))
    rows.learn(_other(107))
    assert not rows.unfit(107)


def test_many_wide_descriptors_are_kept_as_bytes() -> None:
    columns = tuple(Column(number, str(number), parse_sql_type("INT")) for number in range(1, 2_000))
    rows = _rows()
    for table_id in range(200, 220):
        rows.learn(update_of(replace(_TABLE.descriptor, id=table_id, columns=columns)))
    assert not rows.catalog._codecs
    assert rows.lengths(200).columns == len(columns)


# ---- when unneeded versions are looked for ----

_ROOM: Final = 1 << 40
_UNIT: Final = 1_000 + VERSION_BYTES


def _looks(room: DescriptorRoom, count: int, *, keeps: bool = False, is_wanted: bool = False) -> list[bool]:
    """Whether to look before each of some versions, which are kept or not."""
    looks = []
    for _ in range(count):
        looks.append(room.must_look(1_000, is_wanted=is_wanted))
        if keeps:
            room.note_kept(1_000)
    return looks


@pytest.mark.parametrize("more", [0, 1])
def test_one_look_follows_another_when_so_many_bytes_have_come(more: int) -> None:
    room = DescriptorRoom(DescriptorLimits(0, 2 * _UNIT + more, 0, 0, _ROOM, _ROOM))
    assert _looks(room, 1) == [True], "so much may have come before a restart"
    for _ in range(2):
        room.looked()
        assert _looks(room, 4) == [False, more == 0, True, True]


def test_one_look_follows_another_when_what_was_left_has_grown_so_many_times() -> None:
    room = DescriptorRoom(DescriptorLimits(2 * _UNIT, 0, 0, 2, _ROOM, _ROOM))
    assert _looks(room, 4, keeps=True) == [False, False, True, True]
    room.looked()
    assert _looks(room, 5, keeps=True) == [False] * 4 + [True]
    for _ in range(9):
        room.give_back(1_000)
    assert room.used_bytes == 0
    room.looked()
    assert _looks(room, 3, keeps=True) == [False, False, True]


def test_what_is_above_the_bound_of_unwanted_tables_is_looked_through_however_little_it_has_grown() -> None:
    limits = DescriptorLimits(9 * _UNIT, 0, 0, 9, 2 * _UNIT, 4 * _UNIT)
    assert _looks(DescriptorRoom(limits), 4, keeps=True, is_wanted=True) == [False, False, True, True]


@pytest.mark.parametrize(("full", "look"), [(2, 4), (4, 2)])
def test_where_a_version_would_be_refused_fewer_bytes_have_to_come(full: int, look: int) -> None:
    room = DescriptorRoom(DescriptorLimits(0, look * _UNIT, full * _UNIT, 0, 2 * _UNIT, _ROOM))
    for _ in range(2):
        room.note_kept(1_000)
    room.looked()
    assert _looks(room, 3) == [False, True, True]
    room.looked()
    assert _looks(room, 4, is_wanted=True) == [number >= look for number in (1, 2, 3, 4)]


@pytest.mark.parametrize(("is_wanted", "most"), [(False, 2), (True, 3)])
def test_versions_are_taken_up_to_the_bound(is_wanted: bool, most: int) -> None:
    room = DescriptorRoom(DescriptorLimits(0, 0, 0, 0, 2 * _UNIT, 3 * _UNIT))
    for _ in range(most):
        room.require(1_000, is_wanted=is_wanted)
        room.note_kept(1_000)
    with pytest.raises(DescriptorConflict, match="there is no room for its 1000 bytes"):
        room.require(1_000, is_wanted=is_wanted)
    room.give_back(1_000)
    room.require(1_000, is_wanted=is_wanted)
    with pytest.raises(DescriptorConflict, match="there is no room for its 1001 bytes"):
        room.require(1_001, is_wanted=is_wanted)


# ---- in a partition ----


def _driven(limits: DescriptorLimits, state: StoredState | None = None) -> Driven:
    config = ProcessorConfig(descriptors=limits)
    if state is None:
        return Driven(PartitionProcessor(0, 1, config))
    rows = ((table, key, value) for (table, key), value in state.items())
    return Driven(PartitionProcessor.restore(0, 1, config, rows), state)


def _stored_versions(driven: Driven) -> int:
    return sum(table is StateTable.DESCRIPTORS and key[:1] == b"d" for table, key in driven.state)


def test_a_partition_forgets_down_to_the_lowest_gc_threshold_of_its_ranges() -> None:
    log = HandLog(1)
    log.write(update_of(_version(1)))
    ranges = [log.open_range(number, _TABLE.span) for number in (7, 8)]
    for number in (2, 3, 4, 5, 6):
        log.write(update_of(_version(number)))
    for each, gc in zip(ranges, (4.5, 5.5), strict=True):
        each.heartbeat(7)
        each.snapshot(close=7, gc=gc)
    log.write(update_of(_version(8)))
    driven = _driven(_EAGER)
    driven.run(log.partitions[0], 1)
    assert _stored_versions(driven) == 4  # 4, 5, 6, 8
    late = activation([_version(8)], start=at(4.6), feed_id=FeedId("late"))
    driven.control(late)
    assert not driven.causes


@pytest.mark.parametrize("restarted", [False, True])
def test_a_parent_that_the_log_never_shows_keeps_no_version(restarted: bool) -> None:
    """Retention has removed it, and nothing of it comes any more: its child goes on by a scan."""
    log = HandLog(1)
    log.write(update_of(_version(1)))
    child = HandRange(log, RangeId(7), _TABLE.span)
    child.generation = 2
    gone = Parent(RangeId(77), Generation(1), RaftIndex(20))
    child.snapshot(reason=SnapshotReason.SPLIT, close=1, parents=(gone,))
    for number in (2, 3, 4, 5, 6):
        log.write(update_of(_version(number)))
    child.heartbeat(7)
    child.snapshot(close=7, gc=4.5)
    driven = _driven(_EAGER)
    driven.run(log.partitions[0], 1)
    begun = len(log.partitions[0])
    if restarted:
        driven = _driven(_EAGER, driven.state)
    log.write(update_of(_version(8)))
    driven.run(log.partitions[0][begun:], 1)
    assert _stored_versions(driven) == 4  # 4, 5, 6, 8


_VERSIONS = tuple(update_of(_version(number)) for number in (1, 2, 3, 4, 9))


def _rows_of(log: HandLog, order: Sequence[int], limits: DescriptorLimits) -> tuple[list[object], list[str]]:
    feed = activation([_version(1)], start=at(0.5))
    run = Partitions(log, feed, ProcessorConfig(descriptors=limits))
    for number in order:
        run.read(number, batch=1)
    run.settle()
    return [(row.key, row.value) for driven in run.driven for row in driven.rows], run.causes()


@pytest.mark.parametrize("limits", [_EAGER, DescriptorLimits()])
def test_a_range_that_comes_with_an_intent_below_its_gc_threshold_is_read(limits: DescriptorLimits) -> None:
    log = HandLog(2)
    for update in _VERSIONS[:-1]:
        log.write(update)
    low, high = _TABLE.split(500)
    parent, other = log.open_range(2, low), log.open_range(5, high)
    parent.apply(intent(1, 2.5), close=2)
    other.apply(close=9)
    other.snapshot(close=9, gc=8)
    log.write(_VERSIONS[-1])
    parent.apply(trigger=Trigger.SPLIT, close=9)
    child = HandRange(log, RangeId(3), Span(_TABLE.key(300), low.end))
    fields: dict[str, Any] = {"close": 9, "gc": 8, "descriptors": _VERSIONS, "parents": (parent.as_parent(),)}
    parent.span, parent.generation, child.generation = Span(low.start, _TABLE.key(300)), 2, 2
    parent.snapshot(**fields)
    key, _ = _TABLE.pair(400, "x")
    child.snapshot(intents=[OpenIntent(txn(1), b"anchor", key, at(2.5))], **fields)
    child.apply(_TABLE.commit(1, 2.5, 400, "x"), close=9)
    rows, causes = _rows_of(log, (1, 0), limits)
    assert not causes
    assert len(rows) == 1


@pytest.mark.parametrize("limits", [_EAGER, DescriptorLimits()])
def test_a_range_that_waits_for_keys_with_an_older_intent_keeps_all_versions(
    limits: DescriptorLimits,
) -> None:
    log = HandLog(2)
    for update in _VERSIONS[:-1]:
        log.write(update)
    low, high = _TABLE.split(500)
    left, right = log.open_range(3, low), log.open_range(2, high)
    right.apply(intent(1, 2.5), close=2)
    left.apply(close=9)
    left.snapshot(close=9, gc=8)
    log.write(_VERSIONS[-1])
    right.apply(close=9)
    right.end()
    left.apply(trigger=Trigger.MERGE, close=9)
    parents = left.as_parent(), right.as_parent()
    left.span, left.generation = _TABLE.span, 2
    key, _ = _TABLE.pair(600, "x")
    intents = [OpenIntent(txn(1), b"anchor", key, at(2.5))]
    left.snapshot(close=9, high=2, gc=8, descriptors=_VERSIONS, parents=parents, intents=intents)
    log.write(update_of(_version(10)))
    left.apply(_TABLE.commit(1, 2.5, 600, "x"), close=9)
    rows, causes = _rows_of(log, (1, 0), limits)
    assert not causes
    assert len(rows) == 1


def test_a_range_that_waits_keeps_all_versions() -> None:
    log = HandLog(1)
    log.write(update_of(_version(1)))
    one, other = log.open_range(7, _TABLE.span), log.open_range(8, _TABLE.span)
    other.unreadable()
    for number in (2, 3, 4):
        log.write(update_of(_version(number)))
    one.heartbeat(7)
    one.snapshot(close=7, gc=3.5)
    log.write(update_of(_version(8)))
    driven = _driven(_EAGER)
    driven.run(log.partitions[0], 1)
    assert _stored_versions(driven) == 5


@pytest.mark.parametrize("limits", [_EAGER, DescriptorLimits(0, 0, 0, 4 * _SIZE, 5 * _SIZE)])
def test_feeds_of_other_tables_go_on_beside_hostile_descriptors(limits: DescriptorLimits) -> None:
    def rows_beside(count: int, limits: DescriptorLimits) -> list[object]:
        log = HandLog(1)
        log.write(update_of(_version(1)))
        one = log.open_range(7, _TABLE.span)
        driven = _driven(limits)
        driven.control(activation([_version(1)], start=ZERO))
        for number in range(count):
            log.write(_other(200 + number))
            log.write(_other(300)._replace(descriptor=b"\1\xff", version=number))
        one.apply(_TABLE.put(2, 1, "a"), close=1)
        log.write(update_of(_version(3)))
        one.apply(_TABLE.put(4, 2, "b"), close=3)
        driven.run(log.partitions[0], 7)
        again = _driven(limits, driven.state)
        again.step(log.partitions[0])
        assert len(again.state) == len(driven.state)
        return [(record.key, record.value) for record in driven.rows]

    assert len(rows_beside(0, DescriptorLimits())) == 2
    assert rows_beside(20, limits) == rows_beside(0, DescriptorLimits())

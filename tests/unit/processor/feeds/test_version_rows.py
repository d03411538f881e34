"""Descriptors among the rows that they govern: read in log order, whatever the batches."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.feeds import activation
from tests.hand_log import HandLog, HandTable, at, update_of
from tests.unit.processor.driving import Driven, active
from tests.unit.processor.logs import OTHER, PLAIN
from tidegate.changefeed.definition.feed import FIRST_EPOCH, FeedId
from tidegate.changefeed.encoding.row_width import NO_LENGTHS, table_lengths
from tidegate.changefeed.lifecycle.control import Active, Failed, Register, Registered, Remove, read_ack
from tidegate.changefeed.lifecycle.jobs import FeedView
from tidegate.changefeed.lifecycle.registration import StoreState, next_step
from tidegate.errors import DescriptorConflict, EncodingError, StateError, UnknownTable
from tidegate.hlc import ZERO, Timestamp
from tidegate.processor.batch import StateTable, StepResult
from tidegate.processor.feeds import version_rows as rows
from tidegate.processor.feeds.descriptor_room import VERSION_BYTES, DescriptorLimits
from tidegate.raftlog.entry import DescriptorUpdate
from tidegate.rows import (
    Column,
    Family,
    KeyPart,
    TableDescriptor,
    decode_descriptor,
    decoded_descriptors,
    encode_descriptor,
    parse_sql_type,
    stored_descriptor,
)
from tidegate.rows.stored_descriptor import COLUMNS_MAX
from tidegate.spans import Span

_FEED = activation([PLAIN.descriptor])
_WIDE = HandTable(
    replace(
        PLAIN.descriptor,
        version=2,
        modified=at(5),
        columns=(*PLAIN.descriptor.columns, Column(3, "w", parse_sql_type("INT"))),
        families=(Family(0, "primary", (1, 2, 3)),),
    )
)


def _values(log: HandLog, batch: int) -> list[bytes | None]:
    driven = active(_FEED)
    driven.run(log.partitions[0], batch)
    assert driven.causes == []
    return [(record.value or b"").split(b', "updated"')[0] for record in driven.rows]


@pytest.mark.parametrize("batch", [1, 2, 99])
def test_an_added_column_appears_from_its_descriptors_time_on(batch: int) -> None:
    log = HandLog(partitions=1)
    log.describe(PLAIN)
    rows = log.open_range(1, PLAIN.span)
    rows.apply(PLAIN.put(3, 1, "a"))
    log.describe(_WIDE)
    rows.apply(PLAIN.put(4, 2, "b"), _WIDE.put(5, 3, "c", 7))
    assert _values(log, batch) == [
        b'{"after": {"id": 1, "v": "a"}',
        b'{"after": {"id": 2, "v": "b"}',
        b'{"after": {"id": 3, "v": "c", "w": 7}',
    ]


@pytest.mark.parametrize("batch", [1, 2, 99])
def test_a_descriptor_within_a_batch_governs_no_row_that_stands_before_it(batch: int) -> None:
    """The row of second 3 was read by version 1, so version 2 must not be valid from 3 on."""
    log = HandLog(partitions=1)
    log.describe(PLAIN)
    log.open_range(1, PLAIN.span).apply(PLAIN.put(3, 1, "a"))
    log.write(update_of(replace(_WIDE.descriptor, modified=at(3))))
    driven = active(_FEED)
    driven.run(log.partitions[0], batch)
    assert len(driven.rows) == 1
    assert any("broke the log contract" in cause for cause in driven.causes)


@pytest.mark.parametrize("batch", [1, 99])
def test_a_snapshot_brings_the_descriptors_of_its_range(batch: int) -> None:
    log = HandLog(partitions=1)
    rows = log.open_range(1, PLAIN.span, descriptors=(update_of(PLAIN.descriptor),))
    rows.apply(PLAIN.put(3, 1, "a"))
    assert _values(log, batch) == [b'{"after": {"id": 1, "v": "a"}']


def test_identical_redelivery_is_nothing() -> None:
    log = HandLog(partitions=1)
    log.describe(PLAIN)
    rows = log.open_range(1, PLAIN.span)
    for number in range(3):
        rows.apply(PLAIN.put(3 + number, number, "a"))
        log.describe(PLAIN)
    assert len(_values(log, 99)) == 3


def test_a_row_of_a_secondary_index_is_no_row() -> None:
    other_index = HandTable(replace(PLAIN.descriptor, primary_index_id=2))
    log = HandLog(partitions=1)
    log.describe(PLAIN)
    log.open_range(1, PLAIN.span).apply(other_index.put(3, 1, "entry"), PLAIN.put(3, 1, "row"))
    assert _values(log, 99) == [b'{"after": {"id": 1, "v": "row"}']


def test_the_stores_own_keys_and_omitted_writes_are_no_rows() -> None:
    log = HandLog(partitions=1)
    log.describe(PLAIN)
    own = log.open_range(2, Span(b"\x02", b"\x05"))
    own.apply(PLAIN.put(3, 1, "x")._replace(key=b"\x04meta"))
    rows = log.open_range(1, PLAIN.span)
    rows.apply(PLAIN.put(3, 1, "hidden")._replace(omit_in_rangefeeds=True), PLAIN.put(3, 2, "row"))
    assert _values(log, 99) == [b'{"after": {"id": 2, "v": "row"}']


def _register_anew(driven: Driven) -> StepResult:
    again = activation([PLAIN.descriptor], feed_id="again", start=at(6))
    return driven.control(Register(again.definition), again)


def test_after_a_late_descriptor_a_new_feed_reads_rows_by_the_right_version() -> None:
    log = HandLog(partitions=1)
    log.describe(PLAIN)
    rows = log.open_range(1, PLAIN.span)
    rows.apply(PLAIN.put(6, 1, "a"))
    log.describe(_WIDE)  # valid from 5 on: late
    late = len(log.partitions[0])
    rows.apply(_WIDE.put(7, 2, "b", 8))
    log.describe(_WIDE)  # as it is repeated
    rows.apply(_WIDE.put(8, 3, "c", 9))
    driven = active(_FEED)
    driven.run(log.partitions[0][:late], batch=99)
    assert len(driven.causes) > 0
    _register_anew(driven)
    driven.run(log.partitions[0][late:], batch=1)
    again = [record.value or b"" for record in driven.rows if record.timestamp_ms >= at(7).wall_ms]
    assert [b'"w": 8' in again[0], b'"w": 9' in again[1], len(again)] == [True, True, 2]


@pytest.mark.parametrize("restarted", [False, True])
def test_a_feed_on_a_table_whose_descriptor_was_refused_is_told_why_and_where(restarted: bool) -> None:
    """The refused bytes may not even tell the table's name, so the answer names what was refused."""
    log = HandLog(partitions=1)
    log.describe(OTHER)
    log.write(update_of(PLAIN.descriptor)._replace(descriptor=encode_descriptor(PLAIN.descriptor)[1:]))
    log.open_range(1, PLAIN.span)
    driven = Driven()
    driven.run(log.partitions[0])
    (cause,) = driven.causes
    assert cause.startswith("version 1 of table 104: byte 0 of the descriptor is 0x08")
    if restarted:
        driven = Driven.restored(driven.state)
    (answer,) = driven.control(Register(_FEED.definition)).acks
    assert isinstance(answer, Registered)
    (refused,) = answer.refused
    assert refused.startswith("version 1 of table 104: byte 0 of the descriptor is 0x08")
    assert refused.endswith("(it stands at offset 1 of log partition 0)")
    step = next_step(FeedView(defined=_FEED.definition), {0: answer}, 1)
    assert isinstance(step, StoreState)
    assert refused in step.record.error
    assert read_ack(answer.to_bytes()) == answer


def test_what_was_refused_is_not_told_to_feeds_whose_tables_are_known() -> None:
    log = HandLog(partitions=1)
    log.describe(PLAIN)
    log.write(update_of(OTHER.descriptor)._replace(descriptor=b""))
    driven = Driven()
    driven.run(log.partitions[0])
    (answer,) = driven.control(Register(_FEED.definition)).acks
    assert isinstance(answer, Registered)
    assert answer.refused == ()


def test_a_descriptor_of_no_table_ends_nothing() -> None:
    log = HandLog(partitions=1)
    log.write(update_of(replace(PLAIN.descriptor, id=-5)))
    log.describe(PLAIN)
    log.open_range(1, PLAIN.span).apply(PLAIN.put(3, 1, "a"))
    driven = active(_FEED)
    driven.run(log.partitions[0])
    assert driven.causes == ["version 1 of table -5: -5 is no table id: table ids are above 0"]
    assert len(driven.rows) == 1


def test_a_stored_descriptor_of_a_newer_version_says_which_version_of_tidegate_reads_it() -> None:
    log = HandLog(partitions=1)
    log.describe(PLAIN)
    driven = Driven()
    driven.run(log.partitions[0])
    ((key, stored),) = [
        (key, stored) for (table, key), stored in driven.state.items() if table is StateTable.DESCRIPTORS
    ]
    with pytest.raises(StateError, match="Use the version of tidegate that wrote it, or a newer one"):
        rows.PartitionRows().restore([(key, b"\x02" + stored[1:])])


@pytest.mark.parametrize("restarted", [False, True])
def test_a_table_with_an_unreadable_version_takes_no_feed_until_a_later_one_comes(restarted: bool) -> None:
    log = HandLog(partitions=1)
    log.describe(PLAIN)
    log.open_range(1, PLAIN.span)
    log.write(update_of(_WIDE.descriptor)._replace(descriptor=b"\xff newer"))
    later = len(log.partitions[0])
    log.write(update_of(replace(_WIDE.descriptor, version=3, modified=at(6))))
    driven = Driven()
    driven.run(log.partitions[0][:later])
    if restarted:
        driven = Driven.restored(driven.state)
    assert [type(ack) for ack in _register_anew(driven).acks] == [Failed, Failed]
    driven.control(Remove(FeedId("again"), FIRST_EPOCH))
    driven.run(log.partitions[0][later:])
    assert [type(ack) for ack in _register_anew(driven).acks] == [Registered, Active]


def _with_two_of_one_name(version: int, seconds: float) -> TableDescriptor:
    """`PLAIN` with its two columns in the key, both of which are named ``id``."""
    first, second = PLAIN.descriptor.columns
    return replace(
        PLAIN.descriptor,
        version=version,
        modified=at(seconds),
        columns=(first, replace(second, name=first.name)),
        primary_key=(KeyPart(first.id), KeyPart(second.id)),
    )


def test_a_table_with_two_columns_of_one_name_takes_no_feed_until_a_later_version_comes() -> None:
    log = HandLog(partitions=1)
    log.write(update_of(_with_two_of_one_name(1, 0)))
    plain = log.open_range(1, PLAIN.span)
    driven = active(_FEED)
    driven.run(log.partitions[0])
    assert any("several columns named 'id'" in cause for cause in driven.causes)
    log.write(update_of(replace(PLAIN.descriptor, version=2, modified=at(1))))
    driven.run(log.partitions[0][2:])
    assert [type(ack) for ack in _register_anew(driven).acks] == [Registered, Active]
    plain.apply(PLAIN.put(7, 1, "a"))
    driven.run(log.partitions[0][3:])
    assert [record.key for record in driven.rows] == [b"[1]"]


def test_a_stored_version_with_two_columns_of_one_name_fails_feeds_and_ends_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An earlier release has stored it: it had no such rule."""
    twice = update_of(_with_two_of_one_name(1, 0))
    log = HandLog(partitions=1)
    log.describe(OTHER)
    log.write(twice)
    other, plain = log.open_range(1, OTHER.span), log.open_range(2, PLAIN.span)
    driven = active(activation([PLAIN.descriptor], feed_id="plain"))
    driven.control(activation([OTHER.descriptor], feed_id="other"))
    with monkeypatch.context() as earlier:
        earlier.setattr(stored_descriptor, "_require_names", lambda _: None)
        driven.run(log.partitions[0])
    decoded_descriptors._short.cache_clear()
    restored = Driven.restored(driven.state)
    begun = len(log.partitions[0])
    log.write(twice)
    plain.apply(PLAIN.put(4, 1, "a"))
    other.apply(OTHER.put(5, 1, "other"))
    restored.run(log.partitions[0][begun:])
    assert [record.topic for record in restored.rows] == ["other"]
    assert any("table plain has several columns named id" in cause for cause in restored.causes)


def test_a_version_that_a_former_release_could_not_read_makes_the_table_fit_when_it_is_repeated() -> None:
    log = HandLog(partitions=1)
    log.describe(PLAIN)
    rows = log.open_range(1, PLAIN.span)
    log.write(update_of(_WIDE.descriptor)._replace(descriptor=b"\xff newer"))  # what it is to that release
    upgraded_at = len(log.partitions[0])
    log.describe(_WIDE)
    repeated = len(log.partitions[0])
    rows.apply(_WIDE.put(7, 2, "b", 8))
    former = Driven()
    former.run(log.partitions[0][:upgraded_at])
    driven = Driven.restored(former.state)
    driven.run(log.partitions[0][upgraded_at:repeated])
    driven = Driven.restored(driven.state)
    assert [type(ack) for ack in _register_anew(driven).acks] == [Registered, Active]
    driven.run(log.partitions[0][repeated:])
    (row,) = driven.rows
    assert b'"w": 8' in (row.value or b"")


def test_a_version_that_came_with_two_contents_takes_no_feed_though_one_of_them_is_repeated() -> None:
    log = HandLog(partitions=1)
    log.describe(PLAIN)
    log.open_range(1, PLAIN.span)
    log.describe(_WIDE)
    log.write(update_of(replace(_WIDE.descriptor, modified=at(6))))
    log.describe(_WIDE)
    driven = Driven()
    driven.run(log.partitions[0], batch=1)
    driven = Driven.restored(driven.state)
    assert [type(ack) for ack in _register_anew(driven).acks] == [Failed, Failed]


def test_a_version_that_every_snapshot_repeats_is_decoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    update = update_of(replace(PLAIN.descriptor, name="of_many_ranges"))
    decoded: list[bytes] = []

    def decode(stored: bytes, *, is_bounded: bool = True) -> TableDescriptor:
        decoded.append(stored)
        return decode_descriptor(stored, is_bounded=is_bounded)

    monkeypatch.setattr(rows, "decoded_descriptor", decode)
    partition = rows.PartitionRows()
    for _ in range(5):
        partition.learn(update)
    assert len(partition) == 1
    assert decoded == [update.descriptor]


# ---- what is known of versions ----


def _version(number: int, of: HandTable = PLAIN) -> DescriptorUpdate:
    """Version ``number``, valid from that second on."""
    return update_of(replace(of.descriptor, version=number, modified=at(number)))


def _damaged(update: DescriptorUpdate) -> DescriptorUpdate:
    return update._replace(descriptor=b"\xff newer")


def _refuse(partition: rows.PartitionRows, *updates: DescriptorUpdate) -> None:
    for update in updates:
        with pytest.raises(EncodingError):
            partition.learn(_damaged(update))


def _known(partition: rows.PartitionRows, table_id: int = 104) -> list[int]:
    return [each.version for each in partition.catalog.versions(table_id)]


def test_whether_a_version_was_learnt_since_is_told_for_each_table() -> None:
    partition = rows.PartitionRows()
    assert (partition.versions, partition.learnt_since([104], 0)) == (0, False)
    partition.learn(_version(1, PLAIN))
    partition.learn(_version(1, OTHER))
    partition.learn(_version(1, OTHER))  # a copy
    assert partition.versions == 2
    told = {
        (tables, since): partition.learnt_since(tables, since)
        for tables in ((104,), (105,), (106,), (104, 105), ())
        for since in (0, 1, 2)
    }
    assert [at for at, is_news in told.items() if is_news] == [
        ((104,), 0),
        ((105,), 0),
        ((105,), 1),
        ((104, 105), 0),
        ((104, 105), 1),
    ]


def test_the_lengths_of_a_tables_rows_are_those_of_its_widest_versions() -> None:
    partition = rows.PartitionRows()
    assert partition.lengths(104) == NO_LENGTHS
    wide, narrow = table_lengths(_WIDE.descriptor), table_lengths(PLAIN.descriptor)
    assert wide != narrow
    for version, lengths in ((1, narrow), (2, wide), (3, wide)):
        descriptor = _WIDE.descriptor if version == 2 else PLAIN.descriptor
        partition.learn(update_of(replace(descriptor, version=version, modified=at(version))))
        assert [partition.lengths(104), partition.lengths(104)] == [lengths, lengths]
    assert partition.lengths(105) == NO_LENGTHS


def test_lengths_that_nobody_asked_for_keep_nothing_of_forgotten_versions() -> None:
    partition = rows.PartitionRows(DescriptorLimits(kept_bytes=0, look_bytes=0, grows=0))
    partition.learn(_version(1, OTHER))
    partition.room.lowest_read = lambda: at(9)
    for number in range(1, 6):
        partition.learn(_version(number))
    assert _known(partition) == [4, 5]
    assert partition._unmeasured == {104: [4, 5], 105: [1]}
    assert partition.lengths(104) == table_lengths(PLAIN.descriptor)
    partition.learn(_version(6))
    partition.learn(_version(7))
    assert (_known(partition), partition._unmeasured) == ([6, 7], {104: [6, 7], 105: [1]})


@pytest.mark.parametrize("table_id", [1, 0, -1])
def test_ids_of_tables_are_above_zero(table_id: int) -> None:
    partition = rows.PartitionRows()
    update = update_of(replace(PLAIN.descriptor, id=table_id))
    if table_id < 1:
        with pytest.raises(DescriptorConflict, match=f"{table_id} is no table id"):
            partition.learn(update)
    else:
        partition.learn(update)
    assert partition.catalog.has_table(table_id) == (table_id == 1)


def test_a_known_version_that_comes_again_with_the_content_of_another_table_is_refused() -> None:
    partition = rows.PartitionRows()
    partition.learn(_version(1))
    with pytest.raises(DescriptorConflict, match=r"announces version 1 of table 104 .* of table 105"):
        partition.learn(_version(1, OTHER)._replace(table_id=104))
    assert (_known(partition), partition.catalog.has_table(105)) == ([1], False)
    assert "version 1 of table 104" in partition.unfit(104)


def test_a_version_that_was_taken_without_a_bound_is_compared_without_one() -> None:
    """An earlier release had no bound. What is wrong with the copy is its content, not its width."""
    columns = tuple(Column(number, "", parse_sql_type("INT")) for number in range(1, COLUMNS_MAX + 2))
    wide = replace(PLAIN.descriptor, columns=columns)
    partition = rows.PartitionRows()
    partition.restore([(b"d" + bytes(16), encode_descriptor(wide))])
    with pytest.raises(DescriptorConflict, match="different content"):
        partition.learn(update_of(replace(wide, name="renamed")))


def test_the_name_of_a_table_with_a_late_version_is_told() -> None:
    partition = rows.PartitionRows()
    partition.learn(_version(1))
    partition.raise_high(104, at(3))
    with pytest.raises(DescriptorConflict, match="version 2 of table 'plain' is valid from"):
        partition.learn(_version(2))


@pytest.mark.parametrize("seconds", [2.5, 3, 3.5])
def test_no_version_is_told_for_times_of_a_refused_one(seconds: float) -> None:
    partition = rows.PartitionRows()
    partition.learn(_version(1))
    _refuse(partition, _version(3))
    partition.learn(_version(4))
    is_refused = seconds >= 3
    if is_refused:
        with pytest.raises(UnknownTable, match=r"version 3 of table plain \(104\)"):
            partition.version_at(104, at(seconds))
    else:
        assert partition.version_at(104, at(seconds)).version == 1
    assert (partition.primary_keys(104, at(1), at(seconds)) is None) == is_refused
    assert partition.version_at(104, at(4)).version == 4


def test_a_version_whose_rows_are_all_of_refused_times_governs_none_that_can_be_read() -> None:
    """The refused one tells a time from before the version that it follows."""
    partition = rows.PartitionRows()
    _refuse(partition, _version(3)._replace(modified=at(1.5)))
    for number in (1, 2, 4):
        partition.learn(_version(number))
    told = [(table.version, since, is_read) for table, since, is_read in partition.read_by(104)]
    assert told == [(1, at(1), True), (1, at(1.5), False), (2, at(2), False), (4, at(4), True)]


def test_a_known_table_is_unfit_by_a_refused_version_however_many_others_are() -> None:
    partition = rows.PartitionRows(DescriptorLimits(unfit_tables=1))
    partition.learn(_version(1))
    _refuse(partition, _version(1, OTHER), _version(2))
    assert [bool(partition.unfit(table_id)) for table_id in (104, 105)] == [True, True]
    _refuse(partition, _version(2, OTHER))
    assert "version 2 of table 105" in partition.unfit(105)


def test_a_refused_version_is_forgotten_when_a_later_one_governs_all_rows_that_are_read() -> None:
    partition = rows.PartitionRows(DescriptorLimits(kept_bytes=0, look_bytes=0, grows=0))
    partition.learn(_version(1))
    _refuse(partition, _version(2))
    for number, lowest, is_left in ((3, 2.5, True), (4, 2.5, True), (5, 3.5, False)):
        partition.room.lowest_read = lambda lowest=lowest: at(lowest)  # type: ignore[misc]
        partition.learn(_version(number))
        assert partition.has_refused(104) == is_left
    assert _known(partition) == [3, 4, 5]


def test_unneeded_versions_are_looked_for_again_when_enough_has_come() -> None:
    size = len(_version(1).descriptor) + VERSION_BYTES
    partition = rows.PartitionRows(DescriptorLimits(kept_bytes=0, look_bytes=3 * size, grows=0))
    looks: list[int] = []

    def lowest_read() -> Timestamp:
        looks.append(partition.versions)
        return ZERO

    partition.room.lowest_read = lowest_read
    for number in range(1, 9):
        partition.learn(_version(number))
    assert looks == [0, 3, 6]


def test_a_row_of_state_is_stored_when_it_changes_and_under_a_key_that_is_a_format() -> None:
    partition = rows.PartitionRows(DescriptorLimits(kept_bytes=0, look_bytes=0, grows=0))
    partition.room.lowest_read = lambda: at(2)
    for number in (1, 2, 3):
        partition.learn(_version(number))
    _refuse(partition, _version(3, OTHER))
    partition.raise_high(104, at(3))
    changes = {change.key: change.value is not None for change in partition.freeze()}
    plain, other = (104).to_bytes(8, "big"), (105).to_bytes(8, "big")
    one, two, three = (number.to_bytes(8, "big") for number in (1, 2, 3))
    assert changes == {
        b"d" + plain + one: False,
        b"d" + plain + two: True,
        b"d" + plain + three: True,
        b"h" + plain: True,
        b"u" + other: True,
        b"r" + other + three: True,
        b"p" + plain: True,
    }
    partition.learn(_version(3))
    partition.raise_high(104, at(3))
    partition.raise_high(104, at(2))
    assert list(partition.freeze()) == []


def test_a_restart_keeps_what_is_known_of_a_table_whose_id_has_all_bytes() -> None:
    table = HandTable(replace(PLAIN.descriptor, id=(0x7F << 56) + 5))
    table_id = table.descriptor.id
    partition = rows.PartitionRows(DescriptorLimits(kept_bytes=0, look_bytes=0, grows=0))
    partition.room.lowest_read = lambda: at(2)
    for number in (1, 2, 3):
        partition.learn(_version(number, table))
    partition.raise_high(table_id, at(3))
    _refuse(partition, _version(4, table))
    stored = [(key, value) for _, key, value in partition.freeze() if value is not None]
    again = rows.PartitionRows()
    again.restore(stored)
    assert len(again) == len(stored) == 6
    for each in (partition, again):
        assert [*each.catalog.pasts] == [*each.highs] == [table_id]
        assert (each.has_refused(table_id), bool(each.unfit(table_id))) == (True, True)
        assert _known(each, table_id) == [2, 3]

"""Descriptors among the rows that they govern: read in log order, whatever the batches."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.feeds import activation
from tests.hand_log import HandLog, HandTable, at, update_of
from tests.unit.processor.driving import Driven, active
from tests.unit.processor.logs import OTHER, PLAIN
from tidegate.changefeed.definition.feed import FIRST_EPOCH, FeedId
from tidegate.changefeed.lifecycle.control import Active, Failed, Register, Registered, Remove, read_ack
from tidegate.changefeed.lifecycle.jobs import FeedView
from tidegate.changefeed.lifecycle.registration import StoreState, next_step
from tidegate.errors import StateError
from tidegate.processor.batch import StateTable, StepResult
from tidegate.processor.feeds import version_rows as rows
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

"""Tests how a partition takes feeds up and lets go of them, and what ends a feed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.feeds import WITH_MARKERS, activation
from tests.hand_log import HandLog, HandTable, at, update_of
from tests.unit.processor.driving import Driven, active, rows_of, timestamp_of
from tests.unit.processor.logs import OTHER, PLAIN
from tidegate.changefeed.definition.feed import FeedEpoch, FeedId
from tidegate.changefeed.definition.options import FeedOptions, Format, InitialScan
from tidegate.changefeed.lifecycle.control import (
    Activate,
    Active,
    ControlMessage,
    Failed,
    Register,
    Registered,
    Remove,
    Removed,
)
from tidegate.errors import FeedError, StateError
from tidegate.hlc import ZERO, ResolvedTimestamp, Timestamp
from tidegate.processor.batch import ControlRecord
from tidegate.processor.feeds.feed_table import PartitionFeeds
from tidegate.processor.feeds.partition_feed import PartitionFeed
from tidegate.processor.feeds.range_waits import Reach
from tidegate.processor.feeds.version_rows import Starts
from tidegate.raftlog.entry import DescriptorUpdate, Offset, Op, RaftIndex, RangeId
from tidegate.ranges.gap import Gap, ToldGaps
from tidegate.ranges.handoff import Claim, HandOff
from tidegate.rows import Family, TableDescriptor
from tidegate.spans import Span

_FEED = activation([PLAIN.descriptor])
_REGISTER = Register(_FEED.definition)
_ID = _FEED.feed_id
#: What the jobs agent says of a feed on the partition that ``_described`` gives.
_STARTED = replace(_FEED, start=at(3))


def _log(*ops: Op, tables: tuple[HandTable, ...] = (PLAIN, OTHER)) -> HandLog:
    """A partition with a range for each table; the ops are commands of range 1."""
    log = HandLog(partitions=1)
    log.describe(*tables)
    ranges = [log.open_range(number, table.span) for number, table in enumerate(tables, start=1)]
    for op in ops:
        ranges[0].apply(op)
    return log


def _described() -> Driven:
    driven = Driven()
    driven.run(_log(PLAIN.put(3, 1, "old")).partitions[0])
    return driven


# ---- the protocol


def test_a_registered_feed_holds_the_partition_and_is_answered_with_position_and_highest_timestamp() -> None:
    driven = _described()
    result = driven.control(_REGISTER)
    (answer,) = result.acks
    assert isinstance(answer, Registered)
    assert answer.position == driven.processor.next_offset
    assert answer.highest == at(3)
    assert [(known.table.name, known.table_id) for known in answer.tables] == [("plain", 104)]
    assert driven.processor.held
    with pytest.raises(StateError, match="held for a new feed's start"):
        driven.step([])


def test_the_highest_timestamp_of_a_snapshot_counts_as_applied() -> None:
    log = HandLog(partitions=1)
    log.describe(PLAIN)
    log.open_range(1, PLAIN.span, close=8, high=9)
    driven = Driven()
    driven.run(log.partitions[0])
    (answer,) = driven.control(_REGISTER).acks
    assert isinstance(answer, Registered)
    assert answer.highest == at(9)


@pytest.mark.parametrize("start", [3, 4.5, 5, 6])
def test_an_activated_feed_emits_exactly_the_rows_above_its_start(start: float) -> None:
    writes = [PLAIN.put(seconds, seconds, "x") for seconds in (3, 4, 5, 6)]
    records = _log(*writes).partitions[0]
    driven = Driven()
    driven.run(records[:-3])
    driven.control(_REGISTER)
    result = driven.control(replace(_FEED, start=at(start)))
    assert result.acks == [Active(_ID, FeedEpoch(1), 0)]
    assert not driven.processor.held
    driven.run(records)
    assert [timestamp_of(record) for record in driven.rows] == [at(s) for s in (4, 5, 6) if s > start]


def test_a_start_below_what_the_partition_had_applied_at_its_registration_fails_the_feed() -> None:
    """The start was fixed by an answer of a state that was lost: rows up to the new one would be missing."""
    records = _log(*(PLAIN.put(seconds, seconds, "x") for seconds in (10, 13, 50, 51))).partitions[0]
    driven = Driven()
    driven.run(records[:-1])
    driven.control(_REGISTER)
    (answer,) = driven.control(replace(_FEED, start=at(12))).acks
    assert isinstance(answer, Failed)
    assert f"rows up to {at(50)}" in answer.reason
    assert "Create the feed again" in answer.reason
    assert not driven.processor.held
    assert any("Create the feed again" in cause for cause in driven.causes)
    restored = Driven.restored(driven.state)
    for partition in (driven, restored):
        partition.run(records)
        assert partition.rows == []
        assert partition.processor.full_checkpoint().feeds == ()
        assert all(not result.checkpoint.feeds for result in partition.results if result.checkpoint)
        (answer,) = partition.control(_REGISTER).acks
        assert isinstance(answer, Failed), "asked again, the partition says the same"


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (FeedOptions(key_column="nope", unordered=True), "required column nope not present on table plain"),
        (FeedOptions(headers_json_column_name="nope"), "required column nope not present on table plain"),
        (FeedOptions(format=Format.AVRO), "table plain, column w: type OID not yet supported with avro"),
    ],
    ids=["key_column", "headers_json_column_name", "avro"],
)
def test_a_feed_that_could_not_write_any_row_of_its_table_fails_at_its_registration(
    options: FeedOptions, sentence: str
) -> None:
    wide = HandTable.of(104, "plain", "id INT, v STRING, w OID")
    driven = Driven()
    driven.run(_log(tables=(wide, OTHER)).partitions[0])
    definition = replace(_FEED.definition, options=options)
    (answer,) = driven.control(Register(definition)).acks
    assert isinstance(answer, Failed)
    assert sentence in answer.reason
    assert not driven.processor.held
    (answer,) = driven.control(Register(replace(definition, options=FeedOptions(), epoch=FeedEpoch(2)))).acks
    assert isinstance(answer, Registered), "with other options it is taken"


def test_nothing_is_emitted_before_the_feed_is_active() -> None:
    driven = _described()
    assert driven.rows == []


def test_a_fresh_partition_takes_an_activation_without_a_registration() -> None:
    driven = Driven()
    assert driven.control(_FEED).acks == [Active(_ID, FeedEpoch(1), 0)]


def test_a_partition_that_has_read_on_refuses_a_feed_that_it_never_registered() -> None:
    driven = _described()
    (answer,) = driven.control(_FEED).acks
    assert isinstance(answer, Failed)
    assert "never registered" in answer.reason
    assert not driven.processor.held


def test_messages_at_or_below_the_control_position_are_passed_over() -> None:
    driven = _described()
    driven.control(_REGISTER, _STARTED)
    assert driven.processor.next_control_offset == 2
    assert driven.processor.control([ControlRecord(Offset(0), Remove(_ID, FeedEpoch(1)))]).acks == []
    assert driven.processor.full_checkpoint().feeds


def test_a_repeated_message_gets_the_stored_answer_again() -> None:
    driven = _described()
    first = driven.control(_REGISTER).acks
    assert driven.control(_REGISTER, _REGISTER).acks == first * 2
    active_answer = driven.control(_STARTED).acks
    assert driven.control(_REGISTER).acks == active_answer, "an active feed is not registered anew"
    assert driven.control(_STARTED).acks == active_answer


def test_the_start_of_an_active_feed_cannot_be_changed() -> None:
    driven = _described()
    driven.control(_REGISTER, _STARTED)
    driven.control(replace(_FEED, start=at(99)))
    driven.run(_log(PLAIN.put(3, 1, "old"), PLAIN.put(5, 1, "new")).partitions[0])
    assert [timestamp_of(record) for record in driven.rows] == [at(5)]


def test_a_removed_feed_is_forgotten_and_its_state_with_it() -> None:
    driven = _described()
    before = set(driven.state)
    driven.control(_REGISTER, _STARTED)
    assert set(driven.state) - before
    highest = at(3)  # of what `_described` has read
    assert driven.control(Remove(_ID, FeedEpoch(1))).acks == [Removed(_ID, FeedEpoch(1), 0, "", highest)]
    assert set(driven.state) == before
    driven.run(_log(PLAIN.put(3, 1, "old"), PLAIN.put(5, 1, "new")).partitions[0])
    assert driven.rows == []


def test_removing_a_registered_feed_releases_the_partition() -> None:
    driven = _described()
    driven.control(_REGISTER)
    driven.control(Remove(_ID, FeedEpoch(1)))
    assert not driven.processor.held


def test_removing_an_unknown_feed_is_answered() -> None:
    assert Driven().control(Remove(_ID, FeedEpoch(4))).acks == [Removed(_ID, FeedEpoch(4), 0)]


def _of_epoch(epoch: int) -> Activate:
    return replace(_STARTED, definition=replace(_STARTED.definition, epoch=FeedEpoch(epoch)))


def test_an_older_epoch_changes_nothing_of_a_newer_one() -> None:
    driven = _described()
    newer = _of_epoch(2)
    driven.control(Register(newer.definition), newer)
    driven.control(_REGISTER, _STARTED, Remove(_ID, FeedEpoch(1)))
    assert [(feed.feed_id, feed.epoch) for feed in driven.processor.full_checkpoint().feeds] == [(_ID, 2)]


_MESSAGES: tuple[ControlMessage, ...] = (
    _REGISTER,
    _FEED,  # with a start that the partition has to refuse
    _STARTED,
    Remove(_ID, FeedEpoch(1)),
    Register(_of_epoch(2).definition),
    _of_epoch(2),
    Remove(_ID, FeedEpoch(2)),
)


@given(st.lists(st.sampled_from(_MESSAGES), max_size=8))
def test_whatever_the_messages_every_one_but_a_stale_activation_is_answered_and_state_restores(
    messages: list[ControlMessage],
) -> None:
    driven = _described()
    for message in messages:
        answers = driven.control(message).acks
        assert len(answers) <= 1
        assert answers or isinstance(message, Activate)
        restored = Driven.restored(driven.state)
        assert restored.processor.held == driven.processor.held
        assert restored.processor.full_checkpoint() == driven.processor.full_checkpoint()
        assert restored.processor.next_control_offset == driven.processor.next_control_offset


@given(st.permutations([_REGISTER, _STARTED, _STARTED, _REGISTER]))
def test_registration_before_activation_is_the_only_order_that_runs_a_feed_on_a_log_that_has_begun(
    messages: list[ControlMessage],
) -> None:
    driven = _described()
    driven.control(*messages)
    runs = bool(driven.processor.full_checkpoint().feeds)
    assert runs == isinstance(messages[0], Register)


# ---- what ends a feed


def _unknown_table(log: HandLog) -> None:
    """A row above the only descriptor's time is known; one below it is of no known version."""
    log.open_range(3, _LATER.span).apply(_LATER.put(2, 1, "too early"))


def _damaged_value(log: HandLog) -> None:
    op = _LATER.put(7, 1, "x")
    assert op.value is not None
    log.open_range(3, _LATER.span).apply(op._replace(value=op.value[:-1] + b"?"))


def _undecodable_key(log: HandLog) -> None:
    op = _LATER.put(7, 1, "x")
    log.open_range(3, _LATER.span).apply(op._replace(key=op.key[:-2] + b"\x12"))


def _late_descriptor(log: HandLog) -> None:
    log.open_range(3, _LATER.span).apply(_LATER.put(7, 1, "x"))
    log.write(update_of(replace(_LATER.descriptor, version=2, modified=at(6))))


def _other_content(log: HandLog) -> None:
    log.write(update_of(replace(_LATER.descriptor, name="renamed")))


def _many_families(log: HandLog) -> None:
    log.write(update_of(_with_two_families(replace(_LATER.descriptor, version=2, modified=at(6)))))
    log.open_range(3, _LATER.span).apply(_LATER.put(7, 1, "x"))


def _unreadable_descriptor(log: HandLog) -> None:
    log.write(DescriptorUpdate(_LATER.descriptor.id, 2, at(6), b"\x63newer format"))


def _descriptor_of_another_table(log: HandLog) -> None:
    log.write(update_of(replace(PLAIN.descriptor, version=9))._replace(table_id=_LATER.descriptor.id))


def _with_two_families(descriptor: TableDescriptor) -> TableDescriptor:
    return replace(descriptor, families=(Family(0, "primary", (1,)), Family(1, "second", (2,))))


_LATER_SINCE_5 = replace(HandTable.of(106, "later").descriptor, modified=at(5))
_LATER = HandTable(_LATER_SINCE_5)


@pytest.mark.parametrize("batch", [1, 99])
@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (_unknown_table, "no descriptor of table 106 is valid"),
        (_damaged_value, "checksum"),
        (_undecodable_key, "later"),
        (_late_descriptor, "broke the log contract"),
        (_other_content, "came twice with different content"),
        (_many_families, "column families"),
        (_unreadable_descriptor, "is 0x63, where the format byte 0x01 is expected"),
        (_descriptor_of_another_table, "table 104"),
    ],
)
def test_what_a_feed_cannot_emit_fails_that_feed_alone(
    fault: Callable[[HandLog], None], reason: str, batch: int
) -> None:
    log = _log(tables=(PLAIN, OTHER))
    log.describe(_LATER)
    fault(log)
    log.open_range(4, PLAIN.span).apply(PLAIN.put(9, 1, "goes on"), close=9)
    driven = Driven()
    driven.control(_FEED, activation([OTHER.descriptor, _LATER.descriptor], feed_id="second"))
    driven.run(log.partitions[0], batch)
    failed = [ack for result in driven.results for ack in result.acks if isinstance(ack, Failed)]
    assert [ack.feed_id for ack in failed] == ["second"]
    assert reason in failed[0].reason
    assert any("second" in cause or reason in cause for cause in driven.causes)
    assert [record.key for result in driven.results for record in rows_of(result, _ID)] == [b"[1]"]
    assert [feed.feed_id for feed in driven.processor.full_checkpoint().feeds] == [_ID]


def test_a_failed_feed_gives_no_row_after_the_fault_and_is_still_failed_when_restored() -> None:
    broken = PLAIN.put(4, 2, "x")
    assert broken.value is not None
    log = _log(PLAIN.put(3, 1, "good"), broken._replace(value=broken.value[:-1] + b"?"), PLAIN.put(5, 3, "y"))
    driven = active(_FEED)
    driven.run(log.partitions[0])
    assert [record.key for record in driven.rows] == [b"[1]"]
    restored = Driven.restored(driven.state)
    (answer,) = restored.control(_FEED).acks
    assert isinstance(answer, Failed)
    assert "checksum" in answer.reason


def test_a_fault_below_a_feeds_start_does_not_concern_it() -> None:
    broken = PLAIN.put(4, 2, "x")
    assert broken.value is not None
    log = _log(broken._replace(value=broken.value[:-1] + b"?"), PLAIN.put(5, 3, "y"))
    driven = active(replace(_FEED, start=at(4)))
    driven.run(log.partitions[0])
    assert [record.key for record in driven.rows] == [b"[3]"]


def test_a_feed_on_a_table_with_two_families_fails_when_it_is_registered() -> None:
    driven = Driven()
    log = HandLog(partitions=1)
    log.write(update_of(_with_two_families(PLAIN.descriptor)))
    driven.run(log.partitions[0])
    (answer,) = driven.control(_REGISTER).acks
    assert isinstance(answer, Failed)
    assert "column families" in answer.reason


def test_a_dropped_table_is_not_known_any_more() -> None:
    driven = _described()
    log = HandLog(partitions=1)
    for _ in range(9):
        log.describe(PLAIN)
    log.write(update_of(replace(PLAIN.descriptor, version=2, modified=at(8), dropped=True)))
    driven.run(log.partitions[0])
    (answer,) = driven.control(_REGISTER).acks
    assert isinstance(answer, Registered)
    assert answer.tables == ()


# ---- rows that began before the log did


def test_unseen_rows_above_the_start_that_the_store_has_removed_fail_the_feed() -> None:
    log = HandLog(partitions=1)
    log.describe(PLAIN)
    begun = log.open_range(1, PLAIN.span, close=8, high=7, gc=5)
    begun.apply(PLAIN.put(9, 1, "x"), close=9)
    driven = active(replace(_FEED, start=at(4)))
    driven.run(log.partitions[0])
    (answer,) = [ack for result in driven.results for ack in result.acks if isinstance(ack, Failed)]
    assert f"above {at(4)}" in answer.reason
    assert f"GC threshold {at(5)}" in answer.reason
    assert driven.checkpoints == {}


def test_a_range_whose_unseen_rows_are_all_below_the_start_is_followed() -> None:
    log = HandLog(partitions=1)
    log.describe(PLAIN)
    log.open_range(1, PLAIN.span, close=8, high=7).apply(PLAIN.put(9, 1, "x"), close=9)
    driven = active(replace(_FEED, start=at(7)))
    driven.run(log.partitions[0])
    assert [timestamp_of(record) for record in driven.rows] == [at(9)]


def test_a_feed_of_other_tables_is_not_concerned_by_a_range_that_begins_late() -> None:
    log = HandLog(partitions=1)
    log.describe(PLAIN, OTHER)
    log.open_range(1, OTHER.span, close=8, high=7)
    driven = active(_FEED)
    driven.run(log.partitions[0])
    assert [feed.feed_id for feed in driven.processor.full_checkpoint().feeds] == [FeedId("feed")]


# ---- what goes to other partitions of a feed that has failed

_SCANS = replace(WITH_MARKERS, initial_scan=InitialScan.YES)


def _handed_on(span: Span) -> HandOff:
    claim = Claim(RangeId(8), RangeId(1), RaftIndex(9), span)
    return HandOff(claim, ResolvedTimestamp(at(5)), True, span, ())


@pytest.mark.parametrize(("options", "complete_to"), [(WITH_MARKERS, at(3)), (_SCANS, None)])
def test_a_feed_that_has_failed_lacks_all_that_it_watches_of_keys_that_move(
    options: FeedOptions, complete_to: Timestamp | None
) -> None:
    """One that begins with a scan misses what was there before its start as well."""
    feed = activation([PLAIN.descriptor], options, start=at(3))
    driven = _described()
    driven.control(Register(feed.definition), feed)
    feeds = driven.processor._feeds
    span, _ = PLAIN.split(100)
    assert feeds.tell_failures(_handed_on(span)) == _handed_on(span)
    feeds.fail(_ID, FeedError("no schema fits"))
    watched = span.intersect(feed.targets[0].spans[0])
    assert watched is not None
    assert feeds.tell_failures(_handed_on(span)) == _handed_on(span)._replace(
        told_gaps=(ToldGaps(_ID, (Gap(watched, complete_to),)),)
    )


@pytest.mark.parametrize(("options", "complete_to"), [(WITH_MARKERS, ZERO), (_SCANS, None)])
def test_a_feed_that_was_given_up_before_its_start_may_lack_any_of_the_keys_that_move(
    options: FeedOptions, complete_to: Timestamp | None
) -> None:
    driven = _described()
    driven.control(Register(activation([PLAIN.descriptor], options).definition))
    feeds = driven.processor._feeds
    feeds.fail(_ID, FeedError("its start did not come"))
    span = Span(b"a", b"m")
    told = feeds.tell_failures(_handed_on(span))
    assert told == _handed_on(span)._replace(told_gaps=(ToldGaps(_ID, (Gap(span, complete_to),)),))


# ---- what steps and ranges ask


def _table_of(*feeds: Activate) -> PartitionFeeds:
    table = PartitionFeeds(0)
    for message in feeds:
        feed = PartitionFeed(message, None)
        feed.activate(message)
        table.answer(feed)
    return table


_DIFF = replace(WITH_MARKERS, diff=True)


def _four_feeds() -> PartitionFeeds:
    return _table_of(
        activation([PLAIN.descriptor], start=at(7), feed_id="plain"),
        activation([OTHER.descriptor], _DIFF, start=at(4), feed_id="diff"),
        activation([PLAIN.descriptor, OTHER.descriptor], start=at(5), feed_id="both"),
        activation([PLAIN.descriptor], start=at(6), feed_id="again"),
    )


def test_rows_are_wanted_from_the_lowest_start_and_previous_values_only_where_a_feed_shows_them() -> None:
    feeds = _four_feeds()
    assert (feeds.wanted_tables, feeds.wanted_previous) == (frozenset({104, 105}), frozenset({105}))
    assert feeds.starts == Starts({104: at(5), 105: at(4)}, {105: at(4)})
    assert [feeds.want_previous(table.span) for table in (PLAIN, OTHER)] == [False, True]
    feeds.remove(FeedId("diff"), FeedEpoch(1), ZERO)
    assert (feeds.wanted_tables, feeds.wanted_previous) == (frozenset({104, 105}), frozenset[int]())
    assert feeds.starts == Starts({104: at(5), 105: at(5)}, {})
    assert [feeds.want_previous(table.span) for table in (PLAIN, OTHER)] == [False, False]


def test_a_checkpoint_names_all_active_feeds_but_those_with_gaps() -> None:
    feeds = _four_feeds()
    for with_gaps in ((), ("plain",), ("plain", "both"), ("plain", "diff", "both", "again")):
        named = feeds.active_feeds([FeedId(each) for each in with_gaps])
        assert [each.feed_id for each in named] == [
            each for each in ("plain", "diff", "both", "again") if each not in with_gaps
        ]


def test_the_lowest_start_is_that_of_the_feeds_that_miss_versions_and_can_be_given_them() -> None:
    feeds = _four_feeds()
    told = [
        feeds.lowest_start(span, at(below), Reach(ZERO, at(kept)))
        for span, below, kept in (
            (PLAIN.span, 9, 0),
            (OTHER.span, 9, 0),
            (PLAIN.span, 9, 5.5),
            (PLAIN.span, 5, 0),
            (Span(b"\x88", b"\x89"), 9, 0),
        )
    ]
    assert told == [at(5), at(4), at(6), None, None]


def test_a_feed_is_stored_when_it_changes() -> None:
    feeds = _four_feeds()
    assert [change.key for change in feeds.freeze()] == [b"again", b"both", b"diff", b"plain"]
    assert list(feeds.freeze()) == []
    feeds.remove(FeedId("both"), FeedEpoch(1), ZERO)
    assert [(change.key, change.value) for change in feeds.freeze()] == [(b"both", None)]
    assert list(feeds.freeze()) == []

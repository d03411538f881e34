"""The gate: what is complete, what is a repeat, and what breaks the promise."""

from __future__ import annotations

import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.unit.subscribe.gate.memory_spill import MemorySpill
from tests.unit.subscribe.gate.records import ONE, OTHER, gate, marker, row, shown
from tidegate.changefeed.definition.options import Envelope
from tidegate.changefeed.encoding.json_decoder import JsonDecoder
from tidegate.errors import LateRow, MarkerFell, PromiseBroken, RepeatDiffers, SpillLost, UnreadableRow
from tidegate.hlc import Timestamp
from tidegate.subscribe.gate.feed_record import FeedPartition, FeedRecord, RecordColumns
from tidegate.subscribe.gate.row_gate import GateStart, RowGate
from tidegate.subscribe.gate.spilled_rows import Spill


def test_nothing_is_complete_before_every_partition_has_a_marker() -> None:
    both = gate()
    both.add_record(ONE, row(0, 1, 5))
    both.add_record(ONE, marker(1, 10))
    assert both.open() is None
    both.add_record(OTHER, marker(0, 7))
    opening = both.open()
    assert shown(opening) == [(5, b"[1]")]
    assert opening is not None
    assert opening.frontier == Timestamp(7, 1)


def test_rows_leave_in_the_order_of_timestamps_and_keys_over_all_partitions() -> None:
    both = gate()
    for place, record in (
        (ONE, row(0, 3, 6)),
        (OTHER, row(0, 1, 5)),
        (ONE, row(1, 2, 5)),
        (ONE, row(2, 9, 4)),
    ):
        both.add_record(place, record)
    both.add_record(ONE, marker(3, 6))
    both.add_record(OTHER, marker(1, 6))
    assert shown(both.open()) == [(4, b"[9]"), (5, b"[1]"), (5, b"[2]"), (6, b"[3]")]


def test_a_row_at_a_marker_is_below_its_frontier_and_one_above_is_carried_over() -> None:
    one = gate(ONE)
    for record in (row(0, 1, 10), row(1, 2, 10, logical=1), marker(2, 10)):
        one.add_record(ONE, record)
    assert shown(one.open()) == [(10, b"[1]")]
    assert one.waiting_rows == 1
    one.add_record(ONE, marker(3, 11))
    assert shown(one.open()) == [(10, b"[2]")]
    assert one.waiting_rows == 0


def test_a_row_below_its_own_marker_and_above_the_minimum_is_kept() -> None:
    both = gate()
    both.add_record(ONE, marker(0, 20))
    both.add_record(ONE, row(1, 1, 15))
    both.add_record(OTHER, marker(0, 10))
    assert shown(both.open()) == []
    both.add_record(OTHER, marker(1, 30))
    assert shown(both.open()) == [(15, b"[1]")]


def test_exact_copies_are_dropped_before_and_after_they_were_delivered() -> None:
    one = gate(ONE)
    for record in (row(0, 1, 5), row(1, 1, 5), marker(2, 5), row(3, 1, 5)):
        one.add_record(ONE, record)
    assert shown(one.open()) == [(5, b"[1]")]
    one.add_record(ONE, row(4, 1, 5))
    assert one.repeats == 3
    assert one.waiting_rows == 0


def test_an_offset_that_was_read_is_passed_over() -> None:
    one = gate(ONE)
    one.add_record(ONE, row(3, 1, 5))
    one.add_record(ONE, row(3, 1, 6, value=9))
    one.add_record(ONE, marker(4, 9))
    assert shown(one.open()) == [(5, b"[1]")]


def add_each(one: RowGate, records: list[FeedRecord]) -> None:
    """Add records of one partition, and let through what each completes."""
    for record in records:
        one.add_record(ONE, record)
        one.open()


@pytest.mark.parametrize(
    ("records", "error", "offset"),
    [
        ([marker(0, 5), marker(1, 4)], MarkerFell, 1),
        ([row(0, 1, 5), marker(1, 6), row(2, 2, 5)], LateRow, 2),
        ([row(0, 1, 5), marker(1, 6), row(2, 1, 4)], LateRow, 2),
        ([row(0, 1, 5), marker(1, 6), row(2, 1, 5, value=7)], RepeatDiffers, 2),
        ([row(0, 1, 5), row(1, 1, 5, value=7), marker(2, 6)], RepeatDiffers, 1),
    ],
)
def test_a_broken_promise_is_named_with_its_place(
    records: list[FeedRecord], error: type[PromiseBroken], offset: int
) -> None:
    one = gate(ONE)
    with pytest.raises(error) as caught:
        add_each(one, records)
    assert (caught.value.topic, caught.value.partition, caught.value.offset) == ("t", 0, offset)
    assert caught.value.sqlstate == "XX001"


def test_equal_markers_are_nothing() -> None:
    one = gate(ONE)
    for record in (marker(0, 5), marker(1, 5)):
        one.add_record(ONE, record)
    assert shown(one.open()) == []
    assert one.open() is None


def test_what_is_not_remembered_any_more_is_taken_for_a_repeat() -> None:
    one = gate(ONE, versions_kept=2)
    for number in range(4):
        one.add_record(ONE, row(number, number, number + 1))
    one.add_record(ONE, marker(4, 9))
    one.open()
    one.add_record(ONE, row(5, 9, 2))
    with pytest.raises(LateRow):
        one.add_record(ONE, row(6, 9, 3))


def test_a_snapshot_beyond_the_memory_is_not_remembered() -> None:
    one = gate(ONE, versions_kept=2)
    for number in range(5):
        one.add_record(ONE, row(number, number, 1 if number < 4 else 2))
    one.add_record(ONE, marker(5, 3))
    assert len(shown(one.open()) or ()) == 5
    one.add_record(ONE, row(6, 9, 1))
    assert one.repeats == 1
    with pytest.raises(LateRow):
        one.add_record(ONE, row(7, 9, 2))


def test_a_resumed_gate_takes_what_is_at_or_below_its_begin_for_repeats() -> None:
    one = gate(ONE, start=GateStart(Timestamp(10), {ONE: 7}))
    for record in (row(6, 1, 11), row(7, 2, 9), row(8, 3, 11), marker(9, 4), marker(10, 12)):
        one.add_record(ONE, record)
    assert shown(one.open()) == [(11, b"[3]")]
    assert one.repeats == 1


def test_rows_and_markers_of_a_feed_that_had_the_topic_before_count_for_nothing() -> None:
    """Each topic begins where its own feed does, and the gate where the first of them does."""
    later = FeedPartition("u", 0)
    decoders = {topic: JsonDecoder(Envelope.WRAPPED) for topic in ("t", "u")}
    start = GateStart(begins={"t": Timestamp(10), "u": Timestamp(40)})
    both = RowGate(decoders, (ONE, later), start)
    for record in (row(0, 1, 5), marker(1, 9), marker(2, 7), row(3, 2, 11), marker(4, 60)):
        both.add_record(ONE, record)
    for record in (row(0, 1, 20), marker(1, 30), row(2, 1, 40), row(3, 2, 41)):
        both.add_record(later, record)
    opening = both.open()
    assert opening is not None
    assert opening.frontier == Timestamp(40).next()
    assert shown(opening) == [(11, b"[2]")]
    both.add_record(later, marker(4, 50))
    assert shown(both.open()) == [(41, b"[2]")]
    assert both.repeats == 3
    both.add_record(later, row(5, 3, 40))
    with pytest.raises(MarkerFell):
        both.add_record(later, marker(6, 39))


def test_a_marker_that_a_former_feed_may_have_written_completes_nothing() -> None:
    """The former feed was complete above the start of its successor: its store had written nothing since."""
    one = gate(ONE, start=GateStart(begins={ONE.topic: Timestamp(10)}, silent_to={ONE.topic: Timestamp(30)}))
    for record in (row(0, 1, 5), marker(1, 30), marker(2, 12), row(3, 2, 11), marker(4, 25)):
        one.add_record(ONE, record)
    assert one.open() is None
    one.add_record(ONE, row(5, 3, 31))
    one.add_record(ONE, marker(6, 31))
    assert shown(one.open()) == [(11, b"[2]"), (31, b"[3]")]
    with pytest.raises(MarkerFell):
        one.add_record(ONE, marker(7, 30))


def test_offsets_are_those_of_the_first_record_that_is_needed_again() -> None:
    both = gate()
    both.add_record(ONE, row(4, 1, 5))
    both.add_record(ONE, marker(5, 9))
    both.add_record(ONE, row(6, 1, 12))
    assert both.offsets() == {ONE: 4, OTHER: 0}
    both.add_record(OTHER, marker(2, 7))
    both.open()
    assert both.offsets() == {ONE: 5, OTHER: 3}, "the marker of a partition that is ahead is read again"


@pytest.mark.parametrize(
    ("record", "envelope", "why"),
    [
        (FeedRecord(3, b"[1]", b"{"), Envelope.WRAPPED, "cannot be read"),
        (FeedRecord(3, b"[1]", b'{"after": null}'), Envelope.WRAPPED, "tells no timestamp"),
        (FeedRecord(3, None, b'{"id": 1}'), Envelope.WRAPPED, "cannot be read"),
        (FeedRecord(3, b'{"id": 1}', b'{"id": 1}'), Envelope.UPSERT, "tells no timestamp"),
        (FeedRecord(3, b'{"id": 1}', None), Envelope.UPSERT, "tells no timestamp"),
    ],
)
def test_what_cannot_be_read_is_named_with_its_place(
    record: FeedRecord, envelope: Envelope, why: str
) -> None:
    with pytest.raises(UnreadableRow, match=why) as caught:
        gate(ONE, envelope=envelope).add_record(ONE, record)
    assert (caught.value.topic, caught.value.partition, caught.value.offset) == ("t", 0, 3)


def test_a_damaged_row_that_waits_is_found_when_it_is_decoded() -> None:
    one = gate(ONE)
    one.add_record(ONE, FeedRecord(0, b"[1]", b'{"after": {, "updated": "5.0000000000"}'))
    one.add_record(ONE, marker(1, 9))
    opening = one.open()
    assert opening is not None
    for _ in range(2):
        with pytest.raises(UnreadableRow, match="offset 0 of t"):
            _ = opening.versions


def test_a_batch_is_taken_as_its_records_one_by_one() -> None:
    records = [
        row(1, 1, 5),
        row(2, 2, 6),
        marker(3, 6),
        row(4, 1, 4),
        row(5, 3, 7),
        row(6, 3, 7),
        marker(7, 8),
    ]
    alone, together = gate(ONE), gate(ONE)
    for record in records:
        alone.add_record(ONE, record)
    together.add_records(ONE, RecordColumns.of(records))
    assert (
        shown(together.open()) == shown(alone.open()) == [(4, b"[1]"), (5, b"[1]"), (6, b"[2]"), (7, b"[3]")]
    )
    assert together.repeats == alone.repeats == 1


def test_one_key_in_two_topics_is_two_rows() -> None:
    first, second = FeedPartition("t", 0), FeedPartition("u", 0)
    both = RowGate(dict.fromkeys(("t", "u"), JsonDecoder(Envelope.WRAPPED)), (first, second))
    for place in (first, second):
        both.add_records(place, RecordColumns.of([row(0, 1, 5), row(1, 1, 5), marker(2, 6)]))
    opening = both.open()
    assert opening is not None
    assert [(version.topic, version.key) for version in opening.versions] == [("t", b"[1]"), ("u", b"[1]")]
    assert both.repeats == 2


def test_a_partition_that_the_feed_has_not_is_refused() -> None:
    with pytest.raises(UnreadableRow, match=r"t\[9\] is no partition of the feed"):
        gate(ONE).add_record(FeedPartition("t", 9), marker(0, 1))
    with pytest.raises(ValueError, match="without partitions"):
        RowGate({}, ())


def test_another_thread_may_ask_for_figures_while_records_are_taken() -> None:
    both = gate()
    ended = threading.Event()

    def ask() -> int:
        asked = 0
        while not ended.is_set():
            assert both.waiting_bytes >= 0
            assert both.offsets().keys() == {ONE, OTHER}
            asked += both.waiting_rows >= 0
        return asked

    switches = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(1) as threads:
            asking = threads.submit(ask)
            for at in range(2_000):
                both.add_record(ONE, row(2 * at, at, at + 1))
                both.add_record(ONE, marker(2 * at + 1, at + 1))
                if at % 7 == 0:
                    both.add_record(OTHER, marker(at, max(at - 50, 1)))
                    both.open()
            ended.set()
            assert asking.result() > 0
    finally:
        sys.setswitchinterval(switches)
    assert both.waiting_bytes > both.waiting_rows > 0


def test_the_rows_of_one_topic_are_told_apart_in_their_order() -> None:
    first, second = FeedPartition("t", 0), FeedPartition("u", 0)
    both = RowGate(dict.fromkeys(("t", "u"), JsonDecoder(Envelope.WRAPPED)), (first, second))
    both.add_records(first, RecordColumns.of([row(0, 1, 5), row(1, 2, 3), marker(2, 6)]))
    both.add_records(second, RecordColumns.of([row(0, 1, 4), marker(1, 6)]))
    opening = both.open()
    assert opening is not None
    assert [opening.rows.of_topic("t").keys, opening.rows.of_topic("u").keys] == [[b"[2]", b"[1]"], [b"[1]"]]
    assert opening.rows.of_topic("t").walls.tolist() == [3, 5]
    assert len(opening.rows.of_topic("v")) == 0


def parts_gate(parts_up_to: int, versions_kept: int = 100) -> RowGate:
    """A gate of one partition that lets a few rows through at a time, up to a timestamp."""
    decoders = {"t": JsonDecoder(Envelope.WRAPPED)}
    start = GateStart(parts_up_to=Timestamp(parts_up_to))
    spill = Spill(MemorySpill(), budget_bytes=2_000, least_opening_bytes=500)
    return RowGate(decoders, [ONE], start, versions_kept, spill)


def test_rows_of_one_timestamp_come_in_parts_that_complete_nothing() -> None:
    one = parts_gate(5)
    for number in range(40):
        one.add_record(ONE, row(number, number, 5))
    one.add_record(ONE, row(40, 1, 6))
    one.add_record(ONE, marker(41, 6))
    assert one.spilled_rows > 0
    found: list[bytes] = []
    while (opening := one.open()) is not None and len(opening.rows):
        assert opening.frontier == Timestamp(0, 1)
        assert len(opening.rows) <= 12  # a block is taken back whole
        found += opening.rows.keys
        assert one.offsets()[ONE] <= 41
    assert opening is not None
    assert opening.frontier == Timestamp(5, 1)
    assert sorted(found) == sorted(b"[%d]" % number for number in range(40))
    assert shown(one.open()) == [(6, b"[1]")]
    assert one.open() is None
    assert one.waiting_rows == 0


@pytest.mark.parametrize("versions_kept", [100, 3])
def test_rows_that_came_in_parts_are_remembered_as_others_are(versions_kept: int) -> None:
    one = parts_gate(5, versions_kept)
    for number in range(10):
        one.add_record(ONE, row(number, number, 1 + number % 5))
    one.add_record(ONE, marker(10, 6))
    while one.open() is not None:
        pass
    one.add_record(ONE, row(11, 3, 4))
    assert one.repeats == 1
    if versions_kept == 100:
        with pytest.raises(LateRow, match="offset 12"):
            one.add_record(ONE, row(12, 4, 4))
    else:  # more than are remembered: it is taken for a repeat
        one.add_record(ONE, row(12, 4, 4))


def test_a_block_that_is_lost_amid_parts_ends_the_gate() -> None:
    class Lost(MemorySpill):
        def pop(self, ticket: int) -> bytes:
            raise SpillLost(f"block {ticket}")

    spill = Spill(Lost(), budget_bytes=0, least_opening_bytes=500)
    start = GateStart(parts_up_to=Timestamp(5))
    one = RowGate({"t": JsonDecoder(Envelope.WRAPPED)}, [ONE], start, spill=spill)
    one.add_record(ONE, row(0, 1, 5))
    one.add_record(ONE, marker(1, 6))
    for _ in range(2):
        with pytest.raises(SpillLost):
            one.open()

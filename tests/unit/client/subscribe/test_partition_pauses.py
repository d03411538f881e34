"""A partition that is far ahead pauses; the one that holds all others back never does."""

from __future__ import annotations

from tests.unit.subscribe.topic_histories import marker_record
from tidegate.changefeed.definition.options import Envelope
from tidegate.changefeed.encoding.json_decoder import JsonDecoder
from tidegate.client.subscribe.partition_pauses import PartitionPauses
from tidegate.hlc import Timestamp
from tidegate.subscribe import FeedPartition, FeedRecord, RowGate

FIRST, SECOND = FeedPartition("t", 0), FeedPartition("t", 1)


def filled(rows: int) -> RowGate:
    """A gate with so many rows in the first partition, and a marker after them."""
    gate = RowGate({"t": JsonDecoder(Envelope.WRAPPED)}, (FIRST, SECOND))
    for number in range(rows):
        value = f'{{"after": null, "updated": "{number + 1}.0000000000"}}'.encode()
        gate.add_record(FIRST, FeedRecord(number, b"[1]", value))
    gate.add_record(FIRST, marker_record(rows, Timestamp(rows)))
    return gate


def test_a_partition_with_many_rows_ahead_of_the_others_pauses_until_half_are_gone() -> None:
    gate = filled(12)
    pauses = PartitionPauses(gate, (FIRST, SECOND), rows_ahead=10)
    assert pauses.now() == {FIRST}
    gate.add_record(SECOND, marker_record(0, Timestamp(4)))
    gate.open()
    assert (gate.waiting_of(FIRST), pauses.now()) == (8, frozenset({FIRST}))
    gate.add_record(SECOND, marker_record(1, Timestamp(7)))
    gate.open()
    assert (gate.waiting_of(FIRST), pauses.now()) == (5, frozenset())


def test_few_rows_do_not_pause_a_partition() -> None:
    assert PartitionPauses(filled(10), (FIRST, SECOND), rows_ahead=10).now() == frozenset()


def test_the_partition_with_the_lowest_marker_is_always_read() -> None:
    gate = filled(12)
    gate.add_record(SECOND, marker_record(0, Timestamp(30)))
    assert PartitionPauses(gate, (FIRST, SECOND), rows_ahead=10).now() == frozenset()

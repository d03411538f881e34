"""The example's consumer: whatever the order of arrival, its tables are a snapshot."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples.consistent_consumer import Tables, apply_message, gate_over
from tests.unit.verify.streams import Stream, at, correct_streams, marker, row
from tidegate.changefeed.definition.oversize import Oversize
from tidegate.changefeed.encoding.json_decoder import parse_record
from tidegate.errors import MarkerFell, UnreadableRow
from tidegate.hlc import ZERO, Timestamp
from tidegate.subscribe import FeedPartition, RowGate
from tidegate.verify import TopicRecord

PLACES = [FeedPartition("accounts", 0), FeedPartition("accounts", 1)]


class Message(NamedTuple):
    """A message as a consumer gives it."""

    record: TopicRecord

    def topic(self) -> str:
        return self.record.topic

    def partition(self) -> int:
        return self.record.partition

    def offset(self) -> int:
        return self.record.offset

    def key(self) -> bytes | None:
        return self.record.key

    def value(self) -> bytes | None:
        return self.record.value

    def headers(self) -> list[tuple[str, bytes | None]] | None:
        return list(self.record.headers) or None


class Reader:
    """A consumer of some partitions, as the example has it, and how many records each has given."""

    def __init__(self, places: Sequence[FeedPartition] = PLACES) -> None:
        gate = gate_over(places)
        assert gate is not None
        self.gate: RowGate = gate
        self.tables = Tables()
        self._ends = dict.fromkeys(places, 0)

    def apply_next(self, record: TopicRecord) -> bool:
        """Apply a record as the next one of its partition."""
        place = FeedPartition(record.topic, record.partition)
        self._ends[place] += 1
        return apply_message(self.gate, self.tables, Message(record._replace(offset=self._ends[place] - 1)))

    def balances(self) -> dict[bytes, object]:
        """The keys that the table has, with the values that tell its versions apart."""
        return {key: found["v"] for key, found in self.tables.rows.get("accounts", {}).items()}


def mark(ms: int, partition: int = 0) -> TopicRecord:
    return marker(at(ms), "accounts", partition)


def change(ms: int, key: int = 1) -> TopicRecord:
    return row(key, at(ms), count=1)


def test_a_row_whose_value_was_left_out_ends_the_consumer_and_is_taken_for_no_deletion() -> None:
    header = Oversize(1_234_567, False, at(5), at(5)).header()
    with pytest.raises(UnreadableRow, match=r"too large for its topic.* fetch the version 5000000"):
        Reader().apply_next(TopicRecord("accounts", 0, 3, b"[1]", b"", 5, [header]))


def test_a_row_waits_for_the_markers_of_all_partitions() -> None:
    reader = Reader()
    reader.apply_next(change(5))
    assert not reader.apply_next(mark(9))
    assert reader.balances() == {}
    assert reader.apply_next(mark(6, 1))
    assert reader.balances() == {b"[1]": hash(at(5))}
    assert reader.gate.delivered == at(6)


def test_a_row_below_the_marker_of_its_own_partition_is_kept() -> None:
    reader = Reader()
    reader.apply_next(mark(9))
    reader.apply_next(change(5))
    assert reader.apply_next(mark(9, 1))
    assert reader.balances() == {b"[1]": hash(at(5))}


def test_a_row_at_or_below_what_was_let_through_is_a_repeat() -> None:
    reader = Reader(PLACES[:1])
    for record in (change(5), mark(5), change(6), mark(6), change(5), mark(9)):
        reader.apply_next(record)
    assert reader.balances() == {b"[1]": hash(at(6))}
    assert reader.gate.repeats == 1


def test_repeats_that_wait_are_let_through_once_and_in_order() -> None:
    reader = Reader(PLACES[:1])
    for ms in (7, 5, 7, 5):
        reader.apply_next(change(ms))
    assert reader.apply_next(mark(9))
    assert reader.balances() == {b"[1]": hash(at(7))}
    assert reader.gate.repeats == 2


def test_a_marker_that_is_repeated_opens_nothing_and_a_lower_one_ends_the_consumer() -> None:
    reader = Reader(PLACES[:1])
    reader.apply_next(mark(9))
    reader.apply_next(change(10))
    assert not reader.apply_next(mark(9))
    assert reader.gate.delivered == at(9)
    with pytest.raises(MarkerFell):
        reader.apply_next(mark(3))


def test_tables_take_changes_and_deletions() -> None:
    reader = Reader(PLACES[:1])
    deletion = change(4, 2)._replace(value=b'{"after": null, "updated": "4000000.0000000000"}')
    for record in (change(1), change(2, 2), change(3), deletion, mark(9)):
        reader.apply_next(record)
    assert reader.tables.rows == {"accounts": {b"[1]": {"k": 1, "v": hash(at(3))}}}
    assert reader.tables.summary("v") == f"accounts: 1 rows, sum(v) = {hash(at(3))}"


def test_no_partitions_have_no_gate() -> None:
    assert gate_over([]) is None


def interleaved(stream: Stream, seed: int) -> list[TopicRecord]:
    """The stream's records with each partition's order kept and the partitions shuffled together."""
    rng = random.Random(seed)
    queues: dict[tuple[str, int], list[TopicRecord]] = {}
    for record in stream.records:
        queues.setdefault((record.topic, record.partition), []).append(record)
    left = [list(reversed(queue)) for queue in queues.values()]
    arrived = []
    while left := [queue for queue in left if queue]:
        arrived.append(rng.choice(left).pop())
    return arrived


def snapshot(stream: Stream, moment: Timestamp) -> dict[tuple[str, bytes], bytes | None]:
    """Return what the source's tables held at a moment."""
    rows: dict[tuple[str, bytes], bytes | None] = {}
    for version in stream.history:
        if version.timestamp <= moment:
            rows[version.topic, version.key] = version.value
    return rows


def replay(stream: Stream, arrived: Sequence[TopicRecord]) -> Timestamp:
    """Read; after every opening the tables must be the source's snapshot at that moment."""
    reader = Reader([FeedPartition(topic, i) for topic, count in stream.topics.items() for i in range(count)])
    for record in arrived:
        if reader.apply_next(record):
            wanted = {
                place: parse_record(place[1], value).row  # type: ignore[union-attr]
                for place, value in snapshot(stream, reader.gate.delivered).items()
            }
            found = {
                (topic, key): row for topic, rows in reader.tables.rows.items() for key, row in rows.items()
            }
            assert found == wanted
    return reader.gate.delivered


@given(correct_streams, st.integers(0, 2**32))
def test_every_opening_shows_the_snapshot_of_that_moment(stream: Stream, seed: int) -> None:
    last = replay(stream, interleaved(stream, seed))
    assert last > max(version.timestamp for version in stream.history) > ZERO

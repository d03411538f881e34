"""The example's gate: whatever the order of arrival, what is let through is a snapshot."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples.consistent_consumer import Change, Gate, Tables, take
from tests.unit.verify.streams import Stream, at, correct_streams
from tidegate.changefeed.definition.oversize import Oversize
from tidegate.changefeed.encoding.json_decoder import parse_record
from tidegate.changefeed.encoding.record import MarkerRecord
from tidegate.hlc import ZERO, Timestamp
from tidegate.verify import TopicRecord

PLACES = [("accounts", 0), ("accounts", 1)]


def change(ms: int, key: int = 1, topic: str = "accounts") -> Change:
    return Change(at(ms), topic, b"[%d]" % key, {"v": ms})


class Message(NamedTuple):
    """What a consumer gives."""

    record: TopicRecord

    def topic(self) -> str:
        return self.record.topic

    def partition(self) -> int:
        return self.record.partition

    def key(self) -> bytes | None:
        return self.record.key

    def value(self) -> bytes | None:
        return self.record.value

    def headers(self) -> list[tuple[str, bytes | None]] | None:
        return list(self.record.headers) or None


def test_a_row_whose_value_was_left_out_ends_the_consumer_and_is_taken_for_no_deletion() -> None:
    header = Oversize(1_234_567, False, at(5), at(5)).header()
    message = Message(TopicRecord("accounts", 0, 3, b"[1]", b"", 5, [header]))
    with pytest.raises(SystemExit, match=r"too large for its topic.* fetch the version 5000000"):
        take(Gate(PLACES), message)


def test_a_row_waits_for_the_markers_of_all_partitions() -> None:
    gate = Gate(PLACES)
    gate.add(change(5))
    assert gate.marker(PLACES[0], at(9)) == []
    assert gate.marker(PLACES[1], at(6)) == [change(5)]
    assert gate.opened == at(6)


def test_a_row_below_the_marker_of_its_own_partition_is_kept() -> None:
    gate = Gate(PLACES)
    gate.marker(PLACES[0], at(9))
    gate.add(change(5))
    assert gate.marker(PLACES[1], at(9)) == [change(5)]


def test_a_row_at_or_below_what_was_let_through_is_a_repeat() -> None:
    gate = Gate(PLACES[:1])
    gate.add(change(5))
    assert gate.marker(PLACES[0], at(5)) == [change(5)]
    gate.add(change(5))
    assert gate.marker(PLACES[0], at(9)) == []


def test_repeats_that_wait_are_let_through_once_and_in_order() -> None:
    gate = Gate(PLACES[:1])
    for ms in (7, 5, 7, 5):
        gate.add(change(ms))
    assert gate.marker(PLACES[0], at(9)) == [change(5), change(7)]


def test_a_marker_that_is_repeated_or_lower_opens_nothing() -> None:
    gate = Gate(PLACES[:1])
    gate.marker(PLACES[0], at(9))
    gate.add(change(10))
    assert gate.marker(PLACES[0], at(9)) == gate.marker(PLACES[0], at(3)) == []
    assert gate.opened == at(9)


def test_tables_take_changes_and_deletions() -> None:
    tables = Tables()
    tables.apply([change(1, 1), change(2, 2), change(3, 1), Change(at(4), "accounts", b"[2]", None)])
    assert tables.rows == {"accounts": {b"[1]": {"v": 3}}}
    assert tables.summary("v") == "accounts: 1 rows, sum(v) = 3"


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
    """What the source's tables held at a moment."""
    rows: dict[tuple[str, bytes], bytes | None] = {}
    for version in stream.history:
        if version.timestamp <= moment:
            rows[version.topic, version.key] = version.value
    return rows


def replay(stream: Stream, arrived: Sequence[TopicRecord]) -> Timestamp:
    """Feed the gate; after every opening the tables must be the source's snapshot at that moment."""
    gate = Gate((topic, i) for topic, count in stream.topics.items() for i in range(count))
    rows: dict[tuple[str, bytes], object] = {}
    for record in arrived:
        decoded = parse_record(record.key, record.value)
        if isinstance(decoded, MarkerRecord):
            for let in gate.marker((record.topic, record.partition), decoded.resolved):
                rows[let.topic, let.key] = let.row
            wanted = {
                place: parse_record(place[1], value).row  # type: ignore[union-attr]
                for place, value in snapshot(stream, gate.opened).items()
            }
            assert rows == wanted
        else:
            assert decoded.updated is not None
            assert record.key is not None
            gate.add(Change(decoded.updated, record.topic, record.key, decoded.row))
    return gate.opened


@given(correct_streams, st.integers(0, 2**32))
def test_every_opening_shows_the_snapshot_of_that_moment(stream: Stream, seed: int) -> None:
    last = replay(stream, interleaved(stream, seed))
    assert last > max(version.timestamp for version in stream.history) > ZERO

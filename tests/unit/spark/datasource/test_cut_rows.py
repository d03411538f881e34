from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.subscribe.consumer_run import DECODERS
from tests.unit.subscribe.gate.records import ONE, marker, row
from tests.unit.subscribe.topic_histories import TopicHistory, times, topic_histories
from tidegate.changefeed.definition.options import Envelope
from tidegate.changefeed.encoding.json_decoder import JsonDecoder
from tidegate.changefeed.encoding.record import RowRecord
from tidegate.client.subscribe.feed_term import FeedTerm
from tidegate.errors import LateRow, MarkerFell, RepeatDiffers, UnreadableRow
from tidegate.hlc import ZERO, Timestamp
from tidegate.spark.datasource.cut_rows import CutRows
from tidegate.subscribe.gate.feed_record import FeedPartition, FeedRecord, RecordColumns

DECODER = JsonDecoder(Envelope.WRAPPED)


def _read(rows: CutRows, records: list[FeedRecord], sizes: list[int]) -> list[tuple[Timestamp, bytes]]:
    """Give records in batches of these sizes, over and over; return timestamp and key of what comes."""
    found, at, turn = list[tuple[Timestamp, bytes]](), 0, 0
    while at < len(records) and not rows.complete:
        size = sizes[turn % len(sizes)]
        for chunk in rows.new_rows(RecordColumns.of(records[at : at + size])):
            times = zip(chunk.walls.tolist(), chunk.logicals.tolist(), strict=True)
            found += zip(map(Timestamp._make, times), chunk.keys, strict=True)
        at, turn = at + size, turn + 1
    return found


@given(
    history=topic_histories(),
    cuts=st.lists(times(), min_size=1, max_size=4, unique=True).map(sorted),
    sizes=st.lists(st.integers(1, 5), min_size=1, max_size=3),
    behind=st.integers(0, 3),
)
def test_cuts_part_the_versions_and_none_is_missing_or_twice(
    history: TopicHistory, cuts: list[Timestamp], sizes: list[int], behind: int
) -> None:
    above = ZERO
    for closed in cuts:
        found = []
        for place in history.partitions:
            records = _of(history, place)
            first = next((at for at, each in enumerate(records) if _is_above(place, each, above)), 0)
            rows = CutRows(place, DECODERS[place.topic], above, closed)
            found += _read(rows, records[max(first - behind, 0) :], sizes)
            assert rows.complete
        expected = [(each.time, each.key) for each in history.commits if above < each.time <= closed]
        assert sorted((time, int((key or b"")[1:-1])) for time, key in found) == sorted(expected)
        above = closed


def _of(history: TopicHistory, place: FeedPartition) -> list[FeedRecord]:
    """The records of a partition, in the order of offsets."""
    return [record for at, record in history.records if at == place]


def _is_above(place: FeedPartition, record: FeedRecord, above: Timestamp) -> bool:
    if record.key is None:
        return False
    decoded = DECODERS[place.topic].decode(record.key, record.value)
    assert isinstance(decoded, RowRecord)
    assert decoded.updated is not None
    return decoded.updated > above


def test_the_first_marker_at_the_cut_ends_the_reading() -> None:
    rows = CutRows(ONE, DECODER, Timestamp(1), Timestamp(5))
    records = [row(0, 1, 2), marker(1, 4), row(2, 2, 5), row(3, 3, 9), marker(4, 5), row(5, 4, 3)]
    assert [key for _, key in _read(rows, records, [6])] == [b"[1]", b"[2]"]
    assert rows.complete


def test_without_a_marker_at_the_cut_it_is_not_complete() -> None:
    rows = CutRows(ONE, DECODER, Timestamp(1), Timestamp(5))
    assert _read(rows, [row(0, 1, 2), marker(1, 4)], [2]) == [(Timestamp(2), b"[1]")]
    assert not rows.complete


def test_a_repeat_is_dropped_and_one_that_differs_is_named() -> None:
    rows = CutRows(ONE, DECODER, ZERO, Timestamp(5))
    assert len(_read(rows, [row(0, 1, 2), row(1, 1, 2)], [2])) == 1
    with pytest.raises(RepeatDiffers, match=r"offset 2 of t\[0\]"):
        _read(rows, [row(2, 1, 2, value=9)], [1])


def test_a_new_row_behind_a_marker_that_promised_it_is_named() -> None:
    rows = CutRows(ONE, DECODER, ZERO, Timestamp(9))
    assert len(_read(rows, [row(0, 1, 2), marker(1, 4), row(2, 1, 2), row(3, 2, 5)], [2])) == 2
    with pytest.raises(LateRow, match=r"offset 4 of t\[0\].*a marker before it says 0*4"):
        _read(rows, [row(4, 3, 4)], [1])


def test_a_marker_that_falls_and_what_is_no_row_are_named() -> None:
    with pytest.raises(MarkerFell, match="offset 1"):
        _read(CutRows(ONE, DECODER, ZERO, Timestamp(5)), [marker(0, 4), marker(1, 3)], [2])
    with pytest.raises(UnreadableRow, match="offset 0"):
        _read(CutRows(ONE, DECODER, ZERO, Timestamp(5)), [FeedRecord(0, b"[1]", b"{")], [1])


def test_rows_and_markers_of_an_earlier_feed_are_passed_over() -> None:
    term = FeedTerm(Timestamp(300), Timestamp(500), None)
    records = [row(0, 1, 101), row(1, 2, 102), marker(2, 180), marker(3, 500)]
    records += [row(4, 2, 300), marker(5, 400), row(6, 3, 450), marker(7, 501)]
    rows = CutRows(ONE, DECODER, ZERO, Timestamp(450), term)
    assert _read(rows, records, [3]) == [(Timestamp(300), b"[2]"), (Timestamp(450), b"[3]")]
    assert rows.complete

"""The parts of a scan, and what it leaves for the one that takes its place."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.hand_log import at
from tidegate.errors import MalformedEntry
from tidegate.hlc import ZERO
from tidegate.raftlog.entry import Generation, KeyValue, Offset, RaftIndex, RangeId, ScanChunk
from tidegate.raftlog.request import Scan
from tidegate.ranges.scan import SCAN_REPEAT_MS, RangeScan, ScanPart, parts_left
from tidegate.spans import Span


def _part(start: str, end: str, after: float) -> ScanPart:
    return ScanPart(Span(start.encode(), end.encode()), at(after))


def _scan(span: Span, upto: float, *parts: ScanPart) -> RangeScan:
    return RangeScan(RangeId(1), Offset(9), span, list(parts), at(upto), with_prev=False)


_SPAN = Span(b"b", b"m")


def _chunk(request: Scan, *rows: KeyValue, end: bytes | None = None) -> ScanChunk:
    """An answer, to more than was asked for if ``end`` says so."""
    span = request.span if end is None else request.span._replace(end=end)
    made = Generation(2), RaftIndex(3)
    after, upto = request.after, request.upto
    return ScanChunk(request.range_id, *made, request.request_id, span, after, upto, True, rows, True)


def test_what_is_behind_a_part_is_not_taken_with_it() -> None:
    scan = _scan(_SPAN, 8, _part("b", "f", 5), _part("f", "m", 6))
    inside, behind = KeyValue(b"b", at(7), b"x"), KeyValue(b"f", at(7), b"x")
    assert scan.take_chunk(_chunk(scan.request(1, 1), inside, behind, end=b"m"), 2) == [inside]
    assert scan.parts == [_part("f", "m", 6)]


def test_the_next_part_is_asked_for_at_once_whichever_request_was_answered() -> None:
    scan = _scan(_SPAN, 8, _part("b", "f", 5), _part("f", "m", 6))
    first = scan.request(1, 1)
    scan.request(2, 30_000)
    assert not scan.is_due(0)
    scan.take_chunk(_chunk(first), 30_001)
    assert scan.is_due(0)
    assert scan.request(3, 30_001).span == _part("f", "m", 6).span
    assert not scan.is_due(0)


def test_a_refused_chunk_is_asked_for_when_an_answer_would_be_missed_and_not_at_each_piece_behind_it() -> (
    None
):
    scan = _scan(_SPAN, 8, _part("b", "m", 5))
    request = scan.request(1, 1)
    with pytest.raises(MalformedEntry, match="outside its span"):
        scan.take_chunk(_chunk(request, KeyValue(b"x", at(7), b"x"), end=b"f"), 2)
    behind = _chunk(request)._replace(span=Span(b"f", b"m"))
    assert scan.take_chunk(behind, 3) == []
    assert not scan.is_due(SCAN_REPEAT_MS)
    assert scan.is_due(1 + SCAN_REPEAT_MS)
    scan.request(2, 1 + SCAN_REPEAT_MS)
    assert scan.take_chunk(behind, 2 + SCAN_REPEAT_MS) == []
    assert scan.is_due(2 + SCAN_REPEAT_MS)


def test_progress_ends_what_a_refused_chunk_began() -> None:
    scan = _scan(_SPAN, 8, _part("b", "m", 5))
    request = scan.request(1, 1)
    with pytest.raises(MalformedEntry, match="comes twice"):
        scan.take_chunk(_chunk(request, *[KeyValue(b"c", at(7), b"x")] * 2, end=b"f"), 2)
    row = KeyValue(b"c", at(7), b"x")
    assert scan.take_chunk(_chunk(request, row, end=b"f")._replace(last=False), 3) == [row]
    assert scan.take_chunk(_chunk(request)._replace(span=Span(b"h", b"m")), 4) == []
    assert scan.is_due(4)


def test_rows_in_another_order_are_taken_in_theirs() -> None:
    scan = _scan(_SPAN, 8, _part("b", "m", 5))
    rows = [KeyValue(b"c", at(7), b"x"), KeyValue(b"b", at(8), b"x"), KeyValue(b"b", at(6), b"x")]
    assert scan.take_chunk(_chunk(scan.request(1, 1), *rows), 2) == rows[::-1]


def _told(seconds: float) -> list[ScanPart]:
    """All keys are said to be complete up to there."""
    return [_part("a", "z", seconds)]


def test_without_an_earlier_scan_all_keys_are_one_part() -> None:
    assert parts_left(_SPAN, _told(6), None) == [(_SPAN, at(6))]


def test_keys_that_did_not_come_are_complete_up_to_where_the_scan_began_and_the_others_to_its_end() -> None:
    scan = _scan(_SPAN, 8, _part("f", "m", 6))
    assert parts_left(_SPAN, _told(6), scan) == [_part("b", "f", 8), _part("f", "m", 6)]
    assert parts_left(_SPAN, _told(6), _scan(_SPAN, 8)) == [_part("b", "m", 8)]


def test_the_order_in_which_parts_were_scanned_does_not_matter() -> None:
    scan = _scan(_SPAN, 20, _part("f", "m", 6), _part("b", "d", 8))
    assert parts_left(_SPAN, _told(6), scan) == [
        _part("b", "d", 8),
        _part("d", "f", 20),
        _part("f", "m", 6),
    ]


def test_keys_that_left_are_forgotten_and_keys_that_came_are_as_complete_as_is_told() -> None:
    scan = _scan(_SPAN, 8, _part("f", "m", 6))
    assert parts_left(Span(b"b", b"d"), _told(6), scan) == [_part("b", "d", 8)]
    assert parts_left(Span(b"a", b"h"), _told(1), scan) == [
        _part("a", "b", 1),
        _part("b", "f", 8),
        _part("f", "h", 6),
    ]
    assert parts_left(Span(b"x", b"z"), _told(6), scan) == [_part("x", "z", 6)]


def test_no_key_is_less_complete_than_is_told() -> None:
    scan = _scan(_SPAN, 8, _part("f", "m", 6))
    assert parts_left(_SPAN, _told(7), scan) == [_part("b", "f", 8), _part("f", "m", 7)]
    assert parts_left(_SPAN, _told(9), scan) == [_part("b", "m", 9)]


def test_keys_are_as_complete_as_the_furthest_says_and_to_nothing_where_nobody_says_anything() -> None:
    told = [_part("a", "d", 6), _part("c", "f", 8), _part("n", "x", 3)]
    assert parts_left(Span(b"b", b"m"), told, None) == [
        _part("b", "c", 6),
        _part("c", "f", 8),
        ScanPart(Span(b"f", b"m"), ZERO),
    ]
    assert parts_left(Span(b"b", b"f"), told, None) == [_part("b", "c", 6), _part("c", "f", 8)]


def test_of_many_parts_those_nearest_to_each_other_are_joined_at_the_lower() -> None:
    parts = [_part("b", "c", 50), _part("c", "d", 52), _part("d", "e", 90), _part("e", "m", 7)]
    scan = _scan(_SPAN, 99, *sorted(parts, key=lambda part: part.after))
    assert parts_left(_SPAN, [], scan) == [_part("b", "d", 50), _part("d", "e", 90), _part("e", "m", 7)]


@given(st.integers(0, 2**32), st.integers(1, 9))
def test_a_chunk_that_is_taken_in_parts_gives_what_it_gives_at_once(seed: int, most: int) -> None:
    """All versions of a key come together, and the scan stands where it would."""
    chance = Random(seed)
    places = sorted(
        {(b"b%d" % chance.randrange(6), chance.randrange(5, 9)) for _ in range(chance.randrange(20))}
    )
    rows = [KeyValue(key, at(seconds), b"x") for key, seconds in places]
    chance.shuffle(rows)
    end = chance.choice((b"b4", b"m"))
    whole, parted = (_scan(_SPAN, 8, _part("b", "m", 5)) for _ in range(2))
    chunk = _chunk(
        whole.request(1, 1), *(row for row in rows if row.key < end and row.timestamp > at(5)), end=end
    )
    parted.request(1, 1)
    expected = whole.take_chunk(chunk, 2)
    found: list[list[KeyValue]] = []
    while not found or parted.has_more:
        assert not parted.is_due(2), "the rest of the chunk is not asked for"
        found.append(parted.take_chunk(chunk, 2, lambda _, first: first + most))
    assert [row for part in found for row in part] == expected
    keys = [{row.key for row in part} for part in found]
    assert sum(map(len, keys)) == len(set().union(*keys))
    assert all(len(part) >= min(most, 1) for part in found[:-1])
    assert (parted.parts, parted.ask_now, parted.done) == (whole.parts, whole.ask_now, whole.done)

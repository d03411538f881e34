"""The parts of a scan, and what it leaves for the one that takes its place."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.hand_log import at
from tidegate.errors import MalformedEntry
from tidegate.hlc import ZERO, Timestamp
from tidegate.raftlog.entry import Generation, KeyValue, Offset, RaftIndex, RangeId, ScanChunk
from tidegate.raftlog.request import Scan
from tidegate.ranges.scan import SCAN_REPEAT_MS, RangeScan, ScanPart, fault_of, parts_left
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
    chunk = ScanChunk(request.range_id, *made, request.request_id, span, after, upto, True, rows, True)
    return chunk._replace(all_versions=request.all_versions)


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


# ---- which chunks count ----


def test_a_scan_that_was_not_asked_for_has_had_no_answer() -> None:
    scan = _scan(_SPAN, 8, _part("b", "m", 5))
    assert scan.is_due(0)
    assert (scan.request_id, scan.first_request_id, scan.asked_ms) == (0, 0, 0)
    assert (scan.ask_now, scan.refused, scan.has_more, scan.done) == (False, False, False, False)
    assert (scan.next_key, scan.after, scan.since) == (b"b", at(5), at(5))
    unasked = Scan(RangeId(1), 0, _SPAN, at(5), at(8), all_versions=True, with_prev=False)
    assert scan.take_chunk(_chunk(unasked, KeyValue(b"b", at(7), b"x")), 2) == []
    assert scan.parts == [_part("b", "m", 5)]


def test_a_scan_without_parts_is_done_and_takes_nothing() -> None:
    scan = _scan(_SPAN, 8)
    assert (scan.done, scan.next_key, scan.after, scan.since) == (True, b"m", at(8), at(8))
    asked = Scan(RangeId(1), 0, _SPAN, at(8), at(8), all_versions=True, with_prev=False)
    assert scan.take_chunk(_chunk(asked), 2) == []
    assert not scan.has_more


@pytest.mark.parametrize("newest", [False, True])
@pytest.mark.parametrize(("with_prev", "first", "second"), [(False, 84, 100), (True, 85, 101)])
def test_an_answer_to_any_request_for_the_first_part_counts_and_no_other(
    with_prev: bool, first: int, second: int, newest: bool
) -> None:
    """The answer may take longer than a request is waited for."""

    def asked() -> tuple[RangeScan, Scan]:
        parts = [_part("b", "m", 5)]
        scan = RangeScan(RangeId(1), Offset(9), _SPAN, parts, at(8), with_prev=with_prev, newest=newest)
        scan.request(41, 1)
        return scan, scan.request(49, 2)

    scan, request = asked()
    assert (scan.first_request_id, request.request_id) == (first, second)
    assert request.after == (None if newest else at(5))
    row = KeyValue(b"b", at(7), b"x")
    right = _chunk(request, row)
    wrong = [
        *(
            right._replace(request_id=number)
            for number in (0, 1, first - 2, first + 1, second - 1, second + 2)
        ),
        right._replace(after=at(5) if newest else None),
        right._replace(after=at(4)),
        right._replace(upto=at(7.5)),
        right._replace(all_versions=newest),
        right._replace(span=Span(b"a", b"b")),
    ]
    for number in (first, first + 2, second):
        scan, _ = asked()
        for chunk in wrong:
            assert scan.take_chunk(chunk, 9_000) == []
            assert (scan.parts, scan.asked_ms, scan.ask_now) == ([_part("b", "m", 5)], 2, False)
        assert scan.take_chunk(right._replace(request_id=number), 3) == [row]
        assert scan.done


@pytest.mark.parametrize(
    ("end", "last", "answers_last_request", "asks"),
    [
        ("f", False, True, False),
        ("f", True, True, True),
        ("f", True, False, False),
        ("h", False, False, True),
        ("m", False, False, True),
        ("z", True, True, True),
    ],
    ids=["more comes", "the rest is elsewhere", "a later answer comes", "all", "beyond", "far beyond"],
)
def test_what_an_answer_leaves_out_is_asked_for_at_once(
    end: str, last: bool, answers_last_request: bool, asks: bool
) -> None:
    """The last chunk of the latest answer ends the wait, and so does the last key of a part."""
    scan = _scan(_SPAN, 8, _part("b", "h", 5), _part("h", "m", 6))
    first = scan.request(1, 1)
    latest = scan.request(2, 2)
    chunk = _chunk(latest if answers_last_request else first, end=end.encode())._replace(last=last)
    assert scan.take_chunk(chunk, 3) == []
    assert (scan.ask_now, scan.asked_ms) == (asks, 3)
    rest = [_part("f", "h", 5), _part("h", "m", 6)] if end == "f" else [_part("h", "m", 6)]
    assert (scan.parts, scan.next_key, scan.after) == (rest, rest[0].span.start, rest[0].after)
    assert (scan.since, scan.first_request_id) == (at(5), first.request_id)


def test_a_scan_that_is_done_asks_for_nothing() -> None:
    scan = _scan(_SPAN, 8, _part("b", "m", 5))
    scan.take_chunk(_chunk(scan.request(1, 1)), 2)
    assert (scan.done, scan.ask_now, scan.next_key, scan.after) == (True, False, b"m", at(5))


def test_a_chunk_that_begins_behind_the_next_key_shows_that_others_are_lost() -> None:
    scan = _scan(_SPAN, 8, _part("b", "m", 5))
    request = scan.request(1, 1)
    assert scan.take_chunk(_chunk(request)._replace(span=Span(b"b\x00", b"m")), 2) == []
    assert (scan.parts, scan.ask_now, scan.asked_ms) == ([_part("b", "m", 5)], True, 1)
    assert scan.take_chunk(_chunk(request)._replace(span=Span(b"a", b"c")), 3) == []
    assert scan.parts == [_part("c", "m", 5)]


@pytest.mark.parametrize(
    ("seconds_asked", "now", "due"),
    [(1, 1 + SCAN_REPEAT_MS, True), (1, SCAN_REPEAT_MS, False), (500, 0, False)],
)
def test_a_scan_is_asked_for_again_when_nothing_came_for_long(
    seconds_asked: int, now: int, due: bool
) -> None:
    scan = _scan(_SPAN, 8, _part("b", "m", 5))
    scan.request(1, seconds_asked)
    assert scan.is_due(now) == due


@pytest.mark.parametrize(
    ("rows", "newest", "fault"),
    [
        ([("b", 5.5), ("b", 8), ("lzz", 8)], False, ""),
        ([("b", 5.5), ("lzz", 8)], True, ""),
        ([("azz", 7)], False, "outside its span"),
        ([("m", 7)], False, "outside its span"),
        ([("b", 7), ("b", 5)], False, "not above"),
        ([("b", 7), ("c", 8.5)], False, "not above"),
        ([("b", 7), ("c", 7), ("b", 7)], False, "comes twice"),
        ([("b", 7), ("b", 7)], True, "comes twice"),
        ([("b", 6), ("c", 7), ("b", 7)], True, "a second version of its key"),
    ],
)
def test_a_chunk_with_a_row_that_it_may_not_have_is_refused_as_a_whole(
    rows: list[tuple[str, float]], newest: bool, fault: str
) -> None:
    parts = [_part("b", "m", 5)]
    scan = RangeScan(RangeId(1), Offset(9), _SPAN, parts, at(8), with_prev=False, newest=newest)
    found = [KeyValue(key.encode(), at(seconds), b"x") for key, seconds in rows]
    chunk = _chunk(scan.request(1, 1), *found)
    if newest and not fault:
        # The newest version of a key may be as old as can be. It has come if the key is complete up to there.
        found += [KeyValue(b"c", at(1), b"x"), KeyValue(b"d", at(5), b"x")]
        chunk = chunk._replace(rows=(*found,))
    told = fault_of(chunk)
    assert fault in told if fault else told == ""
    if fault:
        with pytest.raises(MalformedEntry, match=fault):
            scan.take_chunk(chunk, 2)
        assert (scan.parts, scan.refused, scan.asked_ms) == ([_part("b", "m", 5)], True, 1)
    else:
        assert len(scan.take_chunk(chunk, 2)) == sum(row.timestamp > at(5) for row in found)


@pytest.mark.parametrize("room", [0, 1, 2, 3, 4, 5, 9])
def test_all_versions_of_a_key_are_taken_together_and_at_least_one_key(room: int) -> None:
    scan = _scan(_SPAN, 8, _part("b", "h", 5), _part("h", "m", 6))
    keys = [b"b", b"c", b"c", b"c", b"d"]
    rows = [KeyValue(key, at(6 + number / 10), b"x") for number, key in enumerate(keys)]
    chunk = _chunk(scan.request(1, 1), *rows)
    rooms = [room, 9]
    asked: list[tuple[int, int]] = []

    def fitting(missing: Sequence[KeyValue], first: int) -> int:
        asked.append((len(missing), first))
        return first + rooms[len(asked) - 1]

    assert scan.take_chunk(chunk._replace(span=Span(b"e", b"h"), rows=()), 2) == []
    assert scan.ask_now
    count = {0: 1, 1: 1, 2: 4, 3: 4, 4: 4}.get(room, 5)
    assert scan.take_chunk(chunk, 2, fitting) == rows[:count]
    rest = [] if count == 5 else [_part(keys[count].decode(), "h", 5)]
    assert (scan.has_more, scan.ask_now) == (count < 5, count == 5)
    assert scan.parts == [*rest, _part("h", "m", 6)]
    if count < 5:
        assert scan.take_chunk(chunk, 3, fitting) == rows[count:]
        assert (scan.has_more, scan.parts) == (False, [_part("h", "m", 6)])
    assert asked == [(5, 0), (5, count)][: 1 + (count < 5)], "the rows are put in order once"


# ---- parts against a plain reference ----

_KEYS = b"abcdefgh"


def _pieces(cuts: set[int], afters: list[int]) -> list[ScanPart]:
    """Disjoint parts between some of the letters; ``-1`` leaves a part out."""
    places = sorted(cuts)
    spans = [Span(_KEYS[i : i + 1], _KEYS[j : j + 1]) for i, j in pairwise(places)]
    return [ScanPart(span, at(after)) for span, after in zip(spans, afters, strict=False) if after >= 0]


_PIECES = st.builds(_pieces, st.sets(st.integers(0, 7), min_size=2), st.lists(st.integers(-1, 4), min_size=7))
_BOUNDS = st.sets(st.integers(0, 7), min_size=2, max_size=2).map(sorted)


@given(_BOUNDS, _PIECES, _PIECES, _BOUNDS, _PIECES, st.integers(4, 6), st.booleans())
def test_no_part_says_more_of_a_key_than_was_told_of_it(
    bounds: list[int],
    one: list[ScanPart],
    other: list[ScanPart],
    scanned: list[int],
    left: list[ScanPart],
    upto: int,
    again: bool,
) -> None:
    """Up to three parts say neither less; beyond them neighbours say what the lower one did."""
    span, before = (Span(_KEYS[i : i + 1], _KEYS[j : j + 1]) for i, j in (bounds, scanned))
    inside = [part for part in left if before.intersect(part.span) == part.span]
    earlier = _scan(before, upto, *reversed(inside)) if again else None
    parts = parts_left(span, [*one, *other], earlier)

    def told(key: int) -> Timestamp:
        name = bytes([key])
        known = [part.after for part in (*one, *other) if part.span.contains(name)]
        if again and before.contains(name):
            known.append(next((part.after for part in inside if part.span.contains(name)), at(upto)))
        return max(known, default=ZERO)

    assert (parts[0].span.start, parts[-1].span.end) == span
    assert all(first.span.end == then.span.start for first, then in pairwise(parts))
    assert all(first.after != then.after for first, then in pairwise(parts))
    keys = [key for key in _KEYS if span.contains(bytes([key]))]
    said = [next(part.after for part in parts if part.span.contains(bytes([key]))) for key in keys]
    plain = [told(key) for key in keys]
    assert all(after <= most for after, most in zip(said, plain, strict=True))
    distinct = 1 + sum(first != then for first, then in pairwise(plain))
    assert said == plain if distinct <= 3 else len(parts) <= 3

"""Compares what a feed missed with the rule, which is written down as directly as possible."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.rangefeed.feeding import T1, at, value
from tidegate.errors import InlineValue
from tidegate.hlc import Timestamp
from tidegate.rangefeed.catchup import RangeTombstone, StoredVersion, VersionBlock, block_of, catch_up
from tidegate.rangefeed.event import DeleteRangeEvent, FeedEvent, ValueEvent
from tidegate.rangefeed.registration import FeedRequest
from tidegate.spans import Span

ALL = FeedRequest(Span(b"a", b"z"))
DIFF = ALL._replace(with_diff=True)


def version(key: str, wall: int, text: str = "", *, omit: bool = False, origin: int = 0) -> StoredVersion:
    return StoredVersion(key.encode(), at(wall), text.encode(), omit, origin)


def blocks(*versions: StoredVersion, each: int = 100) -> list[VersionBlock]:
    """The versions in store order, so many keys to a block."""
    ordered = sorted(versions, key=lambda v: (-v.timestamp.wall, -v.timestamp.logical))
    by_key: dict[bytes, list[StoredVersion]] = {}
    for item in ordered:
        by_key.setdefault(item.key, []).append(item)
    keys = sorted(by_key)
    return [
        block_of([item for key in keys[i : i + each] for item in by_key[key]])
        for i in range(0, len(keys), each)
    ]


def test_a_deletion_that_is_left_out_lets_the_version_below_it_pass_for_the_previous_one() -> None:
    stored = blocks(version("b", 3, "3"), version("b", 2, "", omit=True), version("b", 1, "1"))
    seen = list(catch_up(DIFF._replace(with_filtering=True), stored))
    assert seen == [value("b", 1, "1"), value("b", 3, "3", prev="1")]
    assert list(catch_up(DIFF, stored))[-1] == value("b", 3, "3")


def test_a_version_that_is_left_out_is_still_what_the_next_one_replaced() -> None:
    stored = blocks(version("b", 3, "3"), version("b", 2, "2", origin=1), version("b", 1, "1"))
    seen = list(catch_up(DIFF._replace(omit_remote=True), stored))
    assert seen == [value("b", 1, "1"), value("b", 3, "3", prev="2")]


def test_the_previous_value_may_be_older_than_the_start_but_only_the_newest_of_those() -> None:
    stored = blocks(version("b", 5, "5"), version("b", 2, "2"), version("b", 1, "1"))
    assert list(catch_up(DIFF._replace(start=at(2)), stored)) == [value("b", 5, "5", prev="2")]
    deleted = blocks(version("b", 5, "5"), version("b", 2, ""), version("b", 1, "1"))
    assert list(catch_up(DIFF._replace(start=at(2)), deleted)) == [value("b", 5, "5")]


@pytest.mark.parametrize(("stone", "prev"), [(2, "2"), (3, None), (4, None), (5, "2")])
def test_a_range_tombstone_strictly_between_leaves_no_previous_value(stone: int, prev: str | None) -> None:
    stored = blocks(version("b", 5, "5"), version("b", 2, "2"))
    stones = [RangeTombstone(Span(b"a", b"c"), at(stone))]
    seen = list(catch_up(DIFF._replace(start=at(4)), stored, stones))
    assert [event for event in seen if isinstance(event, ValueEvent)] == [value("b", 5, "5", prev=prev)]


def test_range_tombstones_stand_before_the_versions_of_the_key_where_they_begin() -> None:
    stored = blocks(version("a", 2, "a"), version("c", 9, "c"), version("d", 2, "d"))
    stones = [
        RangeTombstone(Span(b"c", b"d"), at(7)),
        RangeTombstone(Span(b"A", b"e"), at(4)),
        RangeTombstone(Span(b"c", b"zz"), at(3)),
        RangeTombstone(Span(b"b", b"c"), at(1)),
    ]
    assert list(catch_up(ALL._replace(start=at(1)), stored, stones)) == [
        DeleteRangeEvent(Span(b"a", b"e"), at(4)),
        value("a", 2, "a"),
        DeleteRangeEvent(Span(b"c", b"z"), at(3)),
        DeleteRangeEvent(Span(b"c", b"d"), at(7)),
        value("c", 9, "c"),
        value("d", 2, "d"),
    ]


def test_open_intents_are_neither_passed_on_nor_previous_values() -> None:
    provisional = StoredVersion(b"b", at(4), b"maybe", intent_of=T1)
    stored = blocks(version("b", 5, "5"), provisional, version("b", 2, "2"))
    assert list(catch_up(DIFF, stored)) == [value("b", 2, "2"), value("b", 5, "5", prev="2")]


@pytest.mark.parametrize("request_", [ALL, DIFF])
def test_an_inline_value_is_an_error_wherever_in_the_span_it_is(request_: FeedRequest) -> None:
    stored = [
        *blocks(version("b", 5, "5")),
        block_of([StoredVersion(b"c", at(0), b"inline", inline=True)]),
    ]
    scan = catch_up(request_._replace(start=at(9)), stored)
    with pytest.raises(InlineValue, match="inline value of key 63"):
        list(scan)
    among_others = block_of([StoredVersion(b"c", at(0), b"inline", inline=True), version("d", 5, "5")])
    with pytest.raises(InlineValue, match="inline value of key 63"):
        list(catch_up(request_._replace(start=at(9)), [among_others]))
    assert list(catch_up(request_._replace(span=Span(b"a", b"c")), stored)) == [value("b", 5, "5")]


@pytest.mark.parametrize("request_", [ALL, DIFF])
def test_a_start_is_exclusive_for_each_version(request_: FeedRequest) -> None:
    stored = blocks(version("b", 5, "5"), version("c", 4, "4"), version("d", 3, "3"))
    assert list(catch_up(request_._replace(start=at(4)), stored)) == [value("b", 5, "5")]


@pytest.mark.parametrize("request_", [ALL, DIFF])
@pytest.mark.parametrize("each", [1, 2, 3, 4, 5])
@pytest.mark.parametrize(
    ("start", "end", "keys"), [("b", "d", "bc"), ("a", "d", "abc"), ("b", "z", "bcde"), ("a", "z", "abcde")]
)
def test_only_keys_of_the_span_come_however_the_blocks_lie(
    request_: FeedRequest, each: int, start: str, end: str, keys: str
) -> None:
    stored = blocks(*(version(key, 5, key) for key in "abcde"), each=each)
    seen = list(catch_up(request_._replace(span=Span(start.encode(), end.encode())), stored))
    assert seen == [value(key, 5, key) for key in keys]


def test_a_block_without_a_newer_version_is_not_looked_into() -> None:
    class Unread(tuple[StoredVersion, ...]):
        def __iter__(self) -> None:  # type: ignore[override]
            raise AssertionError("looked into")

    unread = VersionBlock(Span(b"a", b"b"), at(4), Unread())
    assert list(catch_up(ALL._replace(start=at(4)), [unread, *blocks(version("c", 5, "5"))])) == [
        value("c", 5, "5")
    ]


def test_a_block_has_versions() -> None:
    with pytest.raises(ValueError, match="without versions"):
        block_of([])


# ---- all of it, against the rule ----


class Stored(NamedTuple):
    versions: list[StoredVersion]
    stones: list[RangeTombstone]


_keys = st.sampled_from(["b", "c", "d"])
_versions = st.builds(
    version,
    _keys,
    st.integers(1, 9),
    st.sampled_from(["", "x", "y"]),
    omit=st.booleans(),
    origin=st.integers(0, 1),
)
_stones = st.builds(
    RangeTombstone,
    st.tuples(_keys, st.sampled_from(["e", "f"])).map(lambda ends: Span(ends[0].encode(), ends[1].encode())),
    st.integers(1, 9).map(Timestamp),
)
_stored = st.builds(
    Stored,
    st.lists(_versions, min_size=1, max_size=12, unique_by=lambda v: (v.key, v.timestamp)),
    st.lists(_stones, max_size=2, unique_by=lambda stone: (stone.span.start, stone.timestamp)),
)
_requests = st.builds(
    FeedRequest,
    st.just(Span(b"b", b"d")),
    st.integers(0, 6).map(Timestamp),
    with_diff=st.booleans(),
    with_filtering=st.booleans(),
    omit_remote=st.booleans(),
)


def by_the_rule(request: FeedRequest, stored: Stored) -> list[FeedEvent]:
    events: list[FeedEvent] = []
    for key in sorted({v.key for v in stored.versions} | {stone.span.start for stone in stored.stones}):
        if not request.span.contains(key):
            continue
        begin_here = [s for s in stored.stones if s.span.start == key and s.timestamp > request.start]
        for stone in sorted(begin_here, key=lambda stone: (stone.timestamp, stone.span)):
            end = min(stone.span.end, request.span.end)
            events.append(DeleteRangeEvent(Span(key, end), stone.timestamp))
        events += values_of_key(request, stored, key)
    return events


def values_of_key(request: FeedRequest, stored: Stored, key: bytes) -> list[FeedEvent]:
    history = sorted((v for v in stored.versions if v.key == key), key=lambda v: v.timestamp)
    stones = [stone.timestamp for stone in stored.stones if stone.span.contains(key)]
    events: list[FeedEvent] = []
    for place, item in enumerate(history):
        if item.timestamp > request.start and not left_out(request, item):
            prev = previous(request, history[:place], item, stones) if request.with_diff else None
            events.append(ValueEvent(key, item.timestamp, item.value, prev))
    return events


def left_out(request: FeedRequest, item: StoredVersion) -> bool:
    return (item.omit and request.with_filtering) or (item.origin_id != 0 and request.omit_remote)


def previous(
    request: FeedRequest, older: list[StoredVersion], item: StoredVersion, stones: list[Timestamp]
) -> bytes | None:
    """The next older version; past deletions that are left out, the one below them."""
    for candidate in reversed(older):
        if candidate.value:
            covered = any(candidate.timestamp < stone < item.timestamp for stone in stones)
            return None if covered else candidate.value
        if candidate.timestamp <= request.start or not left_out(request, candidate):
            return None
    return None


@given(_requests, _stored, st.integers(1, 3))
def test_a_catch_up_is_what_the_rule_says(request: FeedRequest, stored: Stored, each: int) -> None:
    seen = list(catch_up(request, blocks(*stored.versions, each=each), stored.stones))
    assert seen == by_the_rule(request, stored)

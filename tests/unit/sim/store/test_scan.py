"""Answers to scan requests: whole, in order, and never before nothing can follow."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.sim.small_store import OPTIONS, SmallStore, key
from tidegate.hlc import Timestamp
from tidegate.raftlog.entry import KeyValue, RangeId, Snapshot
from tidegate.raftlog.request import Scan
from tidegate.spans import Span

_CLOSING_MS = 2 * OPTIONS.closed_lag_ms


def _scan(
    small: SmallStore,
    *,
    after: Timestamp | None = None,
    upto: Timestamp | None = None,
    all_versions: bool = True,
    with_prev: bool = False,
    span: Span | None = None,
) -> Scan:
    upto = upto or Timestamp(small.present.ns)
    return Scan(small.first.id, 77, span or small.first.span, after, upto, all_versions, with_prev)


def _written(small: SmallStore, *writes: tuple[str, bytes]) -> list[Timestamp]:
    """Write these versions, a millisecond apart."""
    at = []
    for name, value in writes:
        small.pass_ms(1)
        at.append(small.commit_one_phase(name, value))
    return at


def _close(small: SmallStore) -> None:
    small.pass_ms(_CLOSING_MS)
    small.first.heartbeat()


def test_all_versions_come_by_key_and_time() -> None:
    small = SmallStore()
    t1, t2, t3 = _written(small, ("b", b"1"), ("a", b"2"), ("b", b""))
    scan = _scan(small)
    _close(small)
    _, wait = small.scan(scan)
    assert wait is None
    [chunk] = small.chunks(small.first)
    assert chunk.rows == (
        KeyValue(key("a"), t2, b"2"),
        KeyValue(key("b"), t1, b"1"),
        KeyValue(key("b"), t3, b""),
    )
    assert chunk.last
    assert chunk.span == scan.span
    assert (chunk.request_id, chunk.after, chunk.upto) == (77, None, scan.upto)
    assert (chunk.generation, chunk.raft_index) == (1, small.first.applied)


def test_the_bounds_are_exclusive_below_and_inclusive_above() -> None:
    small = SmallStore()
    t1, t2, t3 = _written(small, ("a", b"1"), ("a", b"2"), ("a", b"3"))
    _close(small)
    small.scan(_scan(small, after=t1, upto=t2, with_prev=True))
    assert small.chunks(small.first)[0].rows == (KeyValue(key("a"), t2, b"2", b"1"),)
    small.scan(_scan(small, after=t3, upto=small.first.closed))
    assert small.chunks(small.first)[1].rows == ()


def test_the_latest_mode_has_the_newest_version_of_each_key_deletions_included() -> None:
    small = SmallStore()
    _, t2, _, t4 = _written(small, ("a", b"1"), ("a", b"2"), ("b", b"3"), ("b", b""))
    _close(small)
    small.scan(_scan(small, upto=t4, all_versions=False, with_prev=True))
    assert small.chunks(small.first)[0].rows == (
        KeyValue(key("a"), t2, b"2", b"1"),
        KeyValue(key("b"), t4, b"", b"3"),
    )


def test_previous_values_tell_that_there_was_no_row() -> None:
    small = SmallStore()
    [at] = _written(small, ("a", b"1"))
    _close(small)
    small.scan(_scan(small, upto=at, with_prev=True))
    assert small.chunks(small.first)[0].rows == (KeyValue(key("a"), at, b"1", b""),)


def test_nothing_is_answered_before_it_is_closed() -> None:
    small = SmallStore()
    _written(small, ("a", b"1"))
    running, wait = small.scan(_scan(small))
    assert wait is not None
    assert not small.chunks(small.first)
    _close(small)
    assert running.step() is None
    assert small.chunks(small.first)[0].upto <= small.first.closed


def test_nothing_is_answered_while_an_intent_may_still_commit_below() -> None:
    small = SmallStore()
    txn = small.begin_and_put("a")
    small.pass_ms(1)
    scan = _scan(small)
    _close(small)
    running, wait = small.scan(scan)
    assert wait is not None
    small.store.commit(txn)
    assert running.step() is None
    [row] = small.chunks(small.first)[0].rows
    assert row.timestamp == txn.write_timestamp <= scan.upto


def test_an_intent_elsewhere_or_above_holds_no_scan_back() -> None:
    small = SmallStore()
    small.begin_and_put("g", "z")
    small.pass_ms(1)
    scan = _scan(small, span=Span(small.first.span.start, key("g")))
    small.pass_ms(1)
    small.begin_and_put("a")
    _close(small)
    assert small.scan(scan)[1] is None


def test_a_scan_ends_transactions_whose_coordinator_is_gone() -> None:
    small = SmallStore()
    txn = small.begin_and_put("a")
    small.store.abandon(txn)
    small.pass_ms(1)
    scan = _scan(small)
    _close(small)
    running, wait = small.scan(scan)
    assert wait is not None
    small.pass_ms(OPTIONS.txn_expiry_ms)
    assert running.step() is None
    assert key("a") not in small.first.intents


def test_chunks_are_bounded_whole_by_key_and_cover_the_span() -> None:
    small = SmallStore()
    _written(small, *((name, b"v") for name in "abbbcd"))
    scan = _scan(small)
    _close(small)
    small.scan(scan, replace(OPTIONS, scan_chunk_rows=2))
    chunks = small.chunks(small.first)
    assert [[row.key for row in chunk.rows] for chunk in chunks] == [
        [key("a")],
        [key("b")] * 3,
        [key("c"), key("d")],
    ]
    assert [chunk.last for chunk in chunks] == [False, False, True]
    starts = [scan.span.start, key("b"), key("c")]
    assert [chunk.span for chunk in chunks] == [
        Span(*bounds) for bounds in zip(starts, [*starts[1:], scan.span.end], strict=True)
    ]


def test_chunks_are_bounded_by_bytes() -> None:
    small = SmallStore()
    _written(small, *((name, b"v" * 100) for name in "abcd"))
    scan = _scan(small)
    _close(small)
    small.scan(scan, replace(OPTIONS, scan_chunk_bytes=220))
    assert [len(chunk.rows) for chunk in small.chunks(small.first)] == [2, 2]


def test_the_answer_covers_what_the_range_holds() -> None:
    small = SmallStore()
    _written(small, ("a", b"1"), ("g", b"2"))
    scan = _scan(small, span=Span(key("a"), key("x")))
    _close(small)
    right = small.store.split(small.first.id, key("f"))
    small.scan(scan)
    [chunk] = small.chunks(small.first)
    assert chunk.span == Span(key("a"), key("f"))
    assert chunk.last
    assert [row.key for row in chunk.rows] == [key("a")]
    small.scan(scan._replace(range_id=right.id))
    assert [row.key for row in small.chunks(right)[0].rows] == [key("g")]


def test_a_split_between_two_chunks_ends_the_answer_where_the_range_ends() -> None:
    small = SmallStore()
    _written(small, *((name, b"v") for name in "abcd"))
    scan = _scan(small)
    _close(small)
    running, wait = small.scan(scan, replace(OPTIONS, scan_chunk_rows=1, scan_gap_ms=5))
    assert wait is not None
    small.store.split(small.first.id, key("c"))
    while wait is not None:
        wait = running.step()
    chunks = small.chunks(small.first)
    assert [(chunk.span.end, chunk.generation, chunk.last) for chunk in chunks] == [
        (key("b"), 1, False),
        (key("c"), 2, True),
    ]


@pytest.mark.parametrize("range_id", [1, 99])
def test_a_scan_of_keys_that_the_range_does_not_hold_has_no_answer(range_id: int) -> None:
    small = SmallStore()
    scan = _scan(small, span=small.second.span)._replace(range_id=RangeId(range_id))
    _close(small)
    assert small.scan(scan)[1] is None
    assert not small.chunks(small.first)


def test_versions_that_were_collected_are_answered_by_a_snapshot_with_the_threshold() -> None:
    small = SmallStore()
    t1, t2, _ = _written(small, ("a", b"1"), ("a", b"2"), ("a", b"3"))
    _close(small)
    small.first.collect(t2)
    for scan in (
        _scan(small, after=t1),
        _scan(small),
        _scan(small, upto=t1, all_versions=False),
        _scan(small, all_versions=False, with_prev=True),
    ):
        assert small.scan(scan)[1] is None
        snapshot = small.entries(small.first)[-1]
        assert isinstance(snapshot, Snapshot)
        assert snapshot.gc_threshold == t2
    assert not small.chunks(small.first)


def test_what_was_not_collected_is_answered_in_full() -> None:
    small = SmallStore()
    _, t2, t3 = _written(small, ("a", b"1"), ("a", b"2"), ("a", b"3"))
    _close(small)
    small.first.collect(t2)
    small.scan(_scan(small, after=t2, upto=t3, with_prev=True))
    assert small.chunks(small.first)[0].rows == (KeyValue(key("a"), t3, b"3", b"2"),)
    small.scan(_scan(small, upto=t2, all_versions=False))
    assert small.chunks(small.first)[1].rows == (KeyValue(key("a"), t2, b"2"),)
    small.scan(_scan(small, after=t2, upto=t3, all_versions=False, with_prev=True))
    assert small.chunks(small.first)[2].rows == (KeyValue(key("a"), t3, b"3", b"2"),)

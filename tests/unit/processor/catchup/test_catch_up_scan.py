"""What a catch-up scan asks for, and the versions that it holds until the chunks with their keys come."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pytest

from tests.feeds import WITH_MARKERS, activation
from tests.hand_log import at
from tests.unit.processor.logs import PLAIN
from tidegate.changefeed.definition.options import FeedOptions, InitialScan
from tidegate.hlc import Timestamp
from tidegate.processor.catchup.catch_up_scan import CatchUpScan
from tidegate.processor.feeds.partition_feed import PartitionFeed
from tidegate.raftlog.entry import Generation, Offset, RaftIndex, RangeId, ScanChunk
from tidegate.ranges.gap import Gap
from tidegate.ranges.range_state import RangeState, RangeStatus
from tidegate.ranges.version import Version
from tidegate.spans import Span

_SPAN: Final = Span(b"b", b"y")
_VERSION_BYTES: Final = 200
_DIFF: Final = replace(WITH_MARKERS, diff=True)


def _state(high: float) -> RangeState:
    state = RangeState(RangeId(1))
    state.span, state.status, state.high = Span(b"a", b"z"), RangeStatus.LIVE, at(high)
    return state


def _scan(
    *,
    after: float | None = 1,
    high: float = 5,
    start: float = 1,
    scan: InitialScan = InitialScan.NO,
    options: FeedOptions = WITH_MARKERS,
) -> CatchUpScan:
    message = activation([PLAIN.descriptor], replace(options, initial_scan=scan), start=at(start))
    feed = PartitionFeed(message, None)
    feed.activate(message)
    gap = Gap(_SPAN, None if after is None else at(after))
    begun = CatchUpScan(feed, _state(high), gap, 7)
    begun.scan.request(3, 0)
    return begun


def _version(key: bytes, seconds: float, value: bytes = b"") -> Version:
    return Version(key, at(seconds), value, None, False, RangeId(1), RaftIndex(9), 0)


def _cover(begun: CatchUpScan, upto_key: bytes) -> None:
    """Let a chunk come that covers the keys below this one."""
    scan = begun.scan
    chunk = ScanChunk(
        RangeId(1),
        Generation(1),
        RaftIndex(9),
        scan.request_id,
        Span(scan.next_key, upto_key),
        None if scan.newest else scan.after,
        scan.upto,
        not scan.newest,
        (),
        last=False,
    )
    scan.take_chunk(chunk, 0)


@pytest.mark.parametrize(
    ("after", "upto", "holds"),
    [
        pytest.param({"after": 1, "high": 5}, at(5), True, id="a gap"),
        pytest.param({"after": None, "start": 6, "high": 5}, at(6), True, id="initial, above all"),
        pytest.param({"after": None, "start": 5, "high": 5}, at(5), True, id="initial, at the highest"),
        pytest.param({"after": None, "start": 4, "high": 5}, at(4), False, id="initial, below the highest"),
        pytest.param(
            {"after": None, "start": 6, "high": 5, "scan": InitialScan.ONLY}, at(6), False, id="initial, only"
        ),
    ],
)
def test_a_scan_holds_what_follows_if_it_reads_all_that_the_range_has(
    after: dict[str, object], upto: Timestamp, holds: bool
) -> None:
    begun = _scan(**after)  # type: ignore[arg-type]
    begun.hold(_version(b"c", 9), 10)
    assert begun.scan.upto == upto
    assert begun.holding is holds
    assert bool(begun.held_bytes) is holds


@pytest.mark.parametrize("options", [WITH_MARKERS, _DIFF], ids=["without", "with previous values"])
@pytest.mark.parametrize("after", [1, None], ids=["a gap", "initial"])
def test_a_gap_is_asked_for_as_it_is(after: float | None, options: FeedOptions) -> None:
    begun = _scan(after=after, options=options, scan=InitialScan.YES if after is None else InitialScan.NO)
    asked = begun.scan.request(9, 0)
    assert (asked.range_id, asked.span) == (1, _SPAN)
    assert asked.after == (None if after is None else at(after))
    assert asked.all_versions is (after is not None)
    assert asked.with_prev is (after is not None and options.diff), "an initial scan has no previous values"
    assert (begun.held_bytes, begun.held_row_bytes, begun.went_on_ms) == (0, 0, 7)


@pytest.mark.parametrize(
    ("key", "seconds", "is_held"),
    [
        (b"m", 6, True),
        (b"m", 5, False),
        (b"m", 4, False),
        (b"l\xff", 6, False),
        (b"x\xff", 6, True),
        (b"y", 6, False),
        (b"a", 6, False),
    ],
)
def test_a_scan_holds_what_is_above_it_of_keys_that_no_chunk_has_covered(
    key: bytes, seconds: float, is_held: bool
) -> None:
    begun = _scan()
    _cover(begun, b"m")
    begun.hold(_version(key, seconds), 10)
    assert begun.held_row_bytes == 10 * is_held
    _cover(begun, b"y")
    assert begun.release() == [_version(key, seconds)] * is_held


def test_held_versions_come_out_key_by_key_when_chunks_have_covered_their_keys() -> None:
    begun = _scan()
    later = [_version(b"n", 6), _version(b"c", 6), _version(b"m", 6), _version(b"c", 7)]
    for number, version in enumerate(later):
        begun.hold(version, 10 + number)
    assert begun.release() == []
    _cover(begun, b"m")
    assert begun.release() == [later[1], later[3]]
    assert begun.release() == []
    assert begun.held_row_bytes == 10 + 12
    begun.hold(_version(b"m", 8), 20)
    _cover(begun, b"y")
    assert begun.release() == [later[2], _version(b"m", 8), later[0]]


def test_a_held_version_counts_with_its_key_and_its_values_until_it_comes_out() -> None:
    begun = _scan()
    begun.hold(_version(b"key", 6, b"value"), 10)
    begun.hold(_version(b"other", 6, b""), 30)
    assert (begun.held_bytes, begun.held_row_bytes) == (2 * _VERSION_BYTES + len(b"keyvalueother"), 40)
    _cover(begun, b"o")
    begun.release()
    assert (begun.held_bytes, begun.held_row_bytes) == (_VERSION_BYTES + len(b"other"), 30)
    _cover(begun, b"y")
    begun.release()
    assert (begun.held_bytes, begun.held_row_bytes) == (0, 0)


def test_a_scan_that_holds_nothing_any_more_has_dropped_what_it_held() -> None:
    begun = _scan()
    begun.hold(_version(b"c", 6), 10)
    begun.hold_nothing()
    begun.hold(_version(b"d", 6), 10)
    assert (begun.holding, begun.held_bytes, begun.held_row_bytes) == (False, 0, 0)
    _cover(begun, b"y")
    assert begun.release() == []


def test_a_scan_is_of_a_range_until_that_takes_a_snapshot_or_gives_no_checkpoints() -> None:
    state = _state(5)
    message = activation([PLAIN.descriptor])
    begun = CatchUpScan(PartitionFeed(message, None), state, Gap(_SPAN, at(1)), 0)
    assert begun.is_of(state)
    state.awaits_snapshot = True
    assert not begun.is_of(state)
    state.awaits_snapshot, state.snapshots_taken = False, state.snapshots_taken + 1
    assert not begun.is_of(state)
    assert Offset(0) == begun.scan.snapshot_offset

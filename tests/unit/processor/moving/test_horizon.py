"""Timestamps that are too far ahead to be true, of each kind of entry."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pytest

from tests.hand_log import BASE_S, at, closed
from tests.unit.processor.catchup.partition_parts import CHILD
from tests.unit.processor.logs import PLAIN
from tests.unit.processor.moving.waiting_parts import head
from tidegate.errors import MalformedEntry
from tidegate.hlc import ClosedTimestamp, Timestamp
from tidegate.processor.log_clock import LogClock
from tidegate.processor.moving.horizon import AHEAD_MAX_MS, Horizon
from tidegate.raftlog.entry import (
    Command,
    Entry,
    Generation,
    Heartbeat,
    HistoryMutation,
    KeyValue,
    RaftIndex,
    RangeEnd,
    ScanChunk,
    Trigger,
)
from tidegate.ranges.backlog import RawEntry
from tidegate.ranges.version import Version

_AHEAD_S: Final = AHEAD_MAX_MS // 1000
_NOW_S: Final = 1_000
_FARTHEST: Final = at(_NOW_S + _AHEAD_S)
_BEYOND: Final = Timestamp(_FARTHEST.wall + 1, 0)


def _record(seconds: float = 0) -> RawEntry:
    return RawEntry(7, b"", b"", round((BASE_S + seconds) * 1000))


def _horizon(seconds: float = _NOW_S) -> tuple[Horizon, LogClock]:
    clock = LogClock()
    clock.time_ms = round((BASE_S + seconds) * 1000)
    return Horizon(clock), clock


def _command(timestamp: Timestamp | None, trigger: Trigger = Trigger.NONE) -> Command:
    told = None if timestamp is None else ClosedTimestamp(timestamp)
    return Command(CHILD, Generation(1), RaftIndex(9), (), told, trigger)


_KINDS: Final[dict[str, tuple[Callable[[Timestamp], Entry], str]]] = {
    "command": (_command, "what it closes"),
    "trigger": (lambda time: _command(time, Trigger.SPLIT), "what it closes"),
    "write": (
        lambda time: _command(None, Trigger.HISTORY_MUTATION)._replace(write_timestamp=time),
        "its write timestamp",
    ),
    "heartbeat": (
        lambda time: Heartbeat(CHILD, Generation(1), ClosedTimestamp(time), RaftIndex(9)),
        "what it closes",
    ),
    "closed": (lambda time: head()._replace(closed=ClosedTimestamp(time)), "what a Snapshot closes"),
    "high": (lambda time: head()._replace(high=time), "the highest timestamp of a Snapshot"),
    "gc": (lambda time: head()._replace(gc_threshold=time), "the GC threshold of a Snapshot"),
    "mutation": (
        lambda time: head()._replace(last_mutation=HistoryMutation(RaftIndex(0), time)),
        "the last mutation of a Snapshot",
    ),
}


@pytest.mark.parametrize("kind", _KINDS)
def test_a_timestamp_is_believed_up_to_a_day_above_log_time_or_the_time_of_its_record(kind: str) -> None:
    entry_of, what = _KINDS[kind]
    for horizon, record in ((_horizon()[0], _record(0)), (_horizon(0)[0], _record(_NOW_S))):
        assert horizon.fault(entry_of(_FARTHEST), record) is None
        fault = horizon.fault(entry_of(_BEYOND), record)
        assert str(fault).startswith(f"{what} is {_BEYOND}, {_AHEAD_S} s ahead of its record's time")
        assert str(fault).endswith(f"{_AHEAD_S} s are believed")


def test_a_fault_tells_how_far_ahead_a_timestamp_is() -> None:
    horizon, _ = _horizon()
    fault = horizon.fault(_command(at(_NOW_S + 200_000)), _record(0))
    assert "200000 s ahead of" in str(fault)


@pytest.mark.parametrize("entry", [_command(None), head(), RangeEnd(CHILD, Generation(1), RaftIndex(9))])
def test_an_entry_without_timestamps_has_no_fault(entry: Entry) -> None:
    assert _horizon()[0].fault(entry, _record()) is None


def _chunk(*rows: KeyValue) -> ScanChunk:
    answer = Generation(1), RaftIndex(9), 4
    return ScanChunk(CHILD, *answer, PLAIN.span, None, _BEYOND, all_versions=True, rows=rows, last=True)


def test_each_version_of_a_chunk_and_of_a_command_is_looked_at() -> None:
    horizon, _ = _horizon()
    rows = [KeyValue(b"k", time, b"") for time in (at(1), _FARTHEST, _BEYOND, at(2))]
    horizon.require_chunk(_chunk(*rows[:2]), _record())
    with pytest.raises(MalformedEntry, match="a version of a ScanChunk"):
        horizon.require_chunk(_chunk(*rows), _record())
    versions = [Version(b"k", row.timestamp, b"", None, False, CHILD, RaftIndex(9), 0) for row in rows]
    horizon.require_versions(versions[:2], _record().timestamp)
    with pytest.raises(MalformedEntry, match="the time of a version"):
        horizon.require_versions(versions, _record().timestamp)


def test_what_was_near_enough_once_is_believed_when_the_clock_has_gone_back() -> None:
    """A command or a chunk must not break its range by a change of the clock alone."""
    horizon, clock = _horizon()
    assert horizon.fault(_command(at(1)), _record()) is None
    assert horizon.believed == _FARTHEST.wall
    clock.time_ms -= 1
    assert horizon.fault(_command(_FARTHEST), _record()) is None
    horizon.require_chunk(_chunk(KeyValue(b"k", _FARTHEST, b"")), _record())
    assert horizon.fault(_command(_BEYOND), _record()) is not None
    assert horizon.fault(_command(_FARTHEST), _record()) is not None, "the last look counts"
    assert closed(_NOW_S + _AHEAD_S) == _FARTHEST

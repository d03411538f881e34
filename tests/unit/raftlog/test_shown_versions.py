"""Versions of the store that single entries show, whatever the state of their range is."""

from __future__ import annotations

import pytest

from tests.unit.raftlog.record_bytes import RANGE, expected
from tidegate.hlc import ClosedTimestamp, Timestamp
from tidegate.raftlog.entry import (
    AbortTxn,
    CommitIntent,
    DeleteRange,
    DescriptorUpdate,
    Entry,
    Generation,
    Heartbeat,
    KeyValue,
    RaftIndex,
    RangeEnd,
    ScanChunk,
    TxnId,
    UpdateIntent,
    WriteIntent,
    WriteValue,
)
from tidegate.raftlog.shown_versions import deletions_shown, versions_shown
from tidegate.spans import Span

_TXN = TxnId(bytes(16))
_T = Timestamp(5, 1)
_STONES = DeleteRange(b"a", b"b", _T), DeleteRange(b"c", b"d", _T)
_COMMAND = expected()._replace(
    ops=(
        WriteValue(b"k", _T, b"v", b"before", True, 3),
        WriteIntent(_TXN, b"anchor", _T, _T),
        _STONES[0],
        UpdateIntent(_TXN, _T),
        WriteValue(b"hole", _T, None),
        WriteValue(b"gone", _T, b""),
        CommitIntent(_TXN, b"l", _T, b"w", b"before"),
        CommitIntent(_TXN, b"hole", _T, None),
        AbortTxn(_TXN),
        _STONES[1],
    )
)
_ROWS = KeyValue(b"k", _T, b"v", b"before", True), KeyValue(b"l", _T, b"")
_SCAN = ScanChunk(RANGE, Generation(1), RaftIndex(9), 4, Span(b"a", b"z"), None, _T, True, _ROWS, True)
_OTHERS = [
    expected()._replace(ops=None, write_batch=b"some"),
    expected()._replace(ops=()),
    Heartbeat(RANGE, Generation(1), ClosedTimestamp(_T), RaftIndex(9)),
    RangeEnd(RANGE, Generation(1), RaftIndex(9)),
    DescriptorUpdate(104, 1, _T, b"descriptor"),
]


def test_a_command_shows_what_it_commits_without_what_that_replaced() -> None:
    assert list(versions_shown(_COMMAND)) == [
        KeyValue(b"k", _T, b"v", None, True),
        KeyValue(b"gone", _T, b""),
        KeyValue(b"l", _T, b"w"),
    ]
    assert list(deletions_shown(_COMMAND)) == list(_STONES)


def test_a_piece_of_a_scan_shows_its_rows() -> None:
    assert list(versions_shown(_SCAN)) == list(_ROWS)
    assert list(deletions_shown(_SCAN)) == []


@pytest.mark.parametrize("entry", _OTHERS, ids=lambda entry: type(entry).__name__)
def test_any_other_entry_shows_nothing(entry: Entry) -> None:
    assert list(versions_shown(entry)) == []
    assert list(deletions_shown(entry)) == []

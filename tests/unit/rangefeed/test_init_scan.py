"""The intents that are older than a range's log, among the locks of the store."""

from __future__ import annotations

from tests.unit.rangefeed.feeding import T1, T2, at
from tidegate.raftlog.entry import WriteIntent
from tidegate.rangefeed.init_scan import Lock, LockStrength, intents_in
from tidegate.spans import Span


def test_the_intents_of_the_span_come_in_order_and_no_other_lock() -> None:
    locks = [
        Lock(b"b", T1, b"before the span", at(1)),
        Lock(b"c", T1, b"first", at(2), min_timestamp=at(1)),
        Lock(b"d", T2, b"shared", at(3), LockStrength.SHARED),
        Lock(b"d", T2, b"exclusive", at(4), LockStrength.EXCLUSIVE),
        Lock(b"e", T2, b"last", at(5), LockStrength.INTENT),
        Lock(b"f", T2, b"behind the span", at(6)),
        Lock(b"g", T2, b"shared elsewhere", at(7), LockStrength.SHARED),
    ]
    assert list(intents_in(Span(b"c", b"f"), locks)) == [
        WriteIntent(T1, b"first", at(2), at(1)),
        WriteIntent(T2, b"last", at(5), at(0)),
    ]

"""A strategy for the raw entries of one range: valid by construction, without a store behind them.

Times are small, and keys and transactions are few, so that an example that Hypothesis has reduced can be
read.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from hypothesis import strategies as st

from tidegate.hlc import ZERO, ClosedTimestamp, Timestamp
from tidegate.raftlog.entry import (
    AbortIntent,
    AbortTxn,
    Command,
    CommitIntent,
    Entry,
    Generation,
    Heartbeat,
    Op,
    RaftIndex,
    RangeId,
    Snapshot,
    SnapshotReason,
    TxnId,
    UpdateIntent,
    WriteIntent,
    WriteValue,
)
from tidegate.spans import Span

RANGE_ID: Final = RangeId(7)
SPAN: Final = Span(b"a", b"f")
_KEYS: Final = (b"a", b"b", b"c", b"d", b"e")
_FIRST_INDEX: Final = RaftIndex(10)
_GENERATION: Final = Generation(1)
_SMALLEST: Final = Timestamp(0, 1)
_steps = st.builds(Timestamp, st.integers(0, 3), st.integers(0, 2))


@dataclass(slots=True)
class _Txn:
    id: TxnId
    timestamp: Timestamp
    min_timestamp: Timestamp
    committed: bool = False
    aborted: bool = False
    keys: list[bytes] = field(default_factory=list)

    @property
    def pending(self) -> bool:
        return not (self.committed or self.aborted)


class _Range:
    """The state of a range after the entries so far, and the ops that may come next."""

    def __init__(self, draw: st.DrawFn) -> None:
        self._draw = draw
        self.closed = ZERO
        self.applied = _FIRST_INDEX
        self._newest: dict[bytes, Timestamp] = {}
        self._txns: list[_Txn] = []
        self._begun = 0

    # ---- entries ----

    def snapshot(self) -> Snapshot:
        closed = self._close()
        return Snapshot(
            RANGE_ID, _GENERATION, self.applied, SPAN, closed, ZERO, ZERO, reason=SnapshotReason.INITIAL
        )

    def heartbeat(self) -> Heartbeat:
        return Heartbeat(RANGE_ID, _GENERATION, self._close(), self.applied)

    def command(self) -> Command:
        ops = tuple(self._op() for _ in range(self._draw(st.integers(0, 4))))
        self.applied = RaftIndex(self.applied + 1)
        closed = self._close() if self._draw(st.booleans()) else None
        return Command(RANGE_ID, _GENERATION, self.applied, ops, closed)

    def _close(self) -> ClosedTimestamp:
        self.closed = self._above(self.closed, least=ZERO)
        return ClosedTimestamp(self.closed)

    # ---- ops ----

    def _op(self) -> Op:
        possible: list[Callable[[], Op]] = [self._write_value] if self._free_keys() else []
        if self._free_keys():
            possible.append(self._write_intent)
        if any(txn.keys for txn in self._txns):
            possible += [self._update_intent, self._end_intent]
        if self._txns:
            possible.append(self._abort_txn)
        return self._draw(st.sampled_from(possible))()

    def _write_value(self) -> Op:
        key = self._draw(st.sampled_from(self._free_keys()))
        self._newest[key] = self._above(max(self.closed, self._newest.get(key, ZERO)))
        return WriteValue(key, self._newest[key], self._value())

    def _write_intent(self) -> Op:
        key = self._draw(st.sampled_from(self._free_keys()))
        writers = [txn for txn in self._txns if not txn.committed]
        txn = self._draw(st.sampled_from([None, *writers])) or self._begin()
        floor = max(self.closed, self._newest.get(key, ZERO))
        if txn.timestamp <= floor:
            txn.timestamp = self._above(floor)
        txn.keys.append(key)
        return WriteIntent(txn.id, _KEYS[0], txn.timestamp, txn.min_timestamp)

    def _update_intent(self) -> Op:
        txn = self._draw(st.sampled_from([txn for txn in self._txns if txn.keys]))
        if txn.pending:
            txn.timestamp = self._above(txn.timestamp, least=ZERO)
        return UpdateIntent(txn.id, txn.timestamp)

    def _end_intent(self) -> Op:
        """Commit or abort one intent; a pending transaction ends with it, or drops an intent of an older
        epoch."""
        txn = self._draw(st.sampled_from([txn for txn in self._txns if txn.keys]))
        key = txn.keys.pop(self._draw(st.integers(0, len(txn.keys) - 1)))
        if txn.aborted or (txn.pending and self._draw(st.booleans())):
            return AbortIntent(txn.id)
        txn.committed = True
        self._newest[key] = txn.timestamp
        return CommitIntent(txn.id, key, txn.timestamp, self._value())

    def _abort_txn(self) -> Op:
        """Answer a push: AbortTxn for a transaction that was aborted, or that was committed and left no
        intent."""
        txn = self._draw(st.sampled_from(self._txns))
        if txn.committed and txn.keys:
            return UpdateIntent(txn.id, txn.timestamp)
        txn.aborted = txn.aborted or txn.pending
        return AbortTxn(txn.id)

    # ---- what they are made of ----

    def _begin(self) -> _Txn:
        self._begun += 1
        timestamp = self._above(self.closed)
        txn = _Txn(TxnId(self._begun.to_bytes(16, "big")), timestamp, timestamp)
        self._txns.append(txn)
        return txn

    def _free_keys(self) -> list[bytes]:
        held = {key for txn in self._txns for key in txn.keys}
        return [key for key in _KEYS if key not in held]

    def _above(self, floor: Timestamp, least: Timestamp = _SMALLEST) -> Timestamp:
        step = max(self._draw(_steps), least)
        if step.wall:
            return Timestamp(floor.wall + step.wall, step.logical)
        return Timestamp(floor.wall, floor.logical + step.logical)

    def _value(self) -> bytes:
        return self._draw(st.sampled_from((b"", b"x", b"y")))


@st.composite
def range_histories(draw: st.DrawFn, max_entries: int = 30) -> tuple[Entry, ...]:
    """The log of range ``RANGE_ID`` over ``SPAN`` from its first snapshot on, as the contract allows it.

    Transactions may be left open at the end; keys and values are not those of any table.
    """
    range_ = _Range(draw)
    entries: list[Entry] = [range_.snapshot()]
    count = draw(st.integers(0, max_entries))
    entries.extend(range_.heartbeat() if draw(st.booleans()) else range_.command() for _ in range(count))
    return tuple(entries)

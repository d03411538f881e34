"""The log contract for one range, checked entry by entry."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from sim.breach import Rule
from tidegate.hlc import ZERO, Timestamp
from tidegate.raftlog.entry import (
    AbortIntent,
    AbortTxn,
    Command,
    CommitIntent,
    Entry,
    Heartbeat,
    Op,
    RangeId,
    Snapshot,
    TxnId,
    UpdateIntent,
    WriteIntent,
    WriteValue,
)

Report: TypeAlias = Callable[[Rule, str], None]


@dataclass(slots=True)
class _OpenTxn:
    intents: int
    timestamp: Timestamp


class RangeCheck:
    """Follows one range; tells ``report`` of every breach, and goes on."""

    def __init__(self, range_id: RangeId, report: Report) -> None:
        self._range_id = range_id
        self._report_to = report
        self._first: Snapshot | None = None
        self._applied = 0
        self._closed = ZERO
        self._newest: dict[bytes, tuple[Timestamp, bytes | None]] = {}
        self._open: dict[TxnId, _OpenTxn] = {}
        self._aborted: set[TxnId] = set()
        self._chunks = 0
        self._snapshot_intents: Counter[TxnId] = Counter()

    def take(self, entry: Entry) -> None:
        """Check the range's next entry."""
        if isinstance(entry, Snapshot):
            self._snapshot(entry)
            return
        self._require(not self._chunks, Rule.SNAPSHOT, "its chunks do not stand together")
        if self._first is None:
            self._report(Rule.FIRST, f"begins with a {type(entry).__name__}")
        elif isinstance(entry, Command):
            self._command(entry)
        elif isinstance(entry, Heartbeat):
            self._require(entry.covers == self._applied, Rule.DENSE, f"a heartbeat covers {entry.covers}")
            self._close(entry.closed)

    def _report(self, rule: Rule, what: str) -> None:
        self._report_to(rule, f"range {self._range_id} at index {self._applied}: {what}")

    def _require(self, holds: bool, rule: Rule, what: str) -> None:
        if not holds:
            self._report(rule, what)

    # ---- entries ----

    def _snapshot(self, chunk: Snapshot) -> None:
        if self._first is None:
            self._first = chunk
            self._applied = chunk.raft_index
            self._require(not chunk.intents, Rule.FIRST, "the first snapshot has intents")
        high = max((timestamp for timestamp, _ in self._newest.values()), default=self._first.high)
        self._require(chunk.raft_index == self._applied, Rule.DENSE, f"a snapshot at {chunk.raft_index}")
        self._require(chunk.span == self._first.span, Rule.SNAPSHOT, "the span changed")
        self._require(chunk.high == high, Rule.SNAPSHOT, f"high is {chunk.high}, not {high}")
        self._require(chunk.chunk == self._chunks, Rule.SNAPSHOT, f"chunk {self._chunks} is missing")
        self._snapshot_intents.update(intent.txn_id for intent in chunk.intents)
        for intent in chunk.intents:
            known = self._open.get(intent.txn_id)
            above = known is None or intent.timestamp >= known.timestamp
            self._require(above, Rule.SNAPSHOT, f"an intent of {intent.txn_id.hex()} fell")
        self._close(chunk.closed)
        self._chunks += 1
        if self._chunks == chunk.chunks:
            same = self._snapshot_intents == self._counts()
            self._require(same, Rule.SNAPSHOT, "it lists other intents than are open")
            self._chunks = 0
            self._snapshot_intents.clear()

    def _counts(self) -> dict[TxnId, int]:
        return {txn_id: txn.intents for txn_id, txn in self._open.items()}

    def _command(self, entry: Command) -> None:
        expected = self._applied + 1
        self._require(entry.raft_index == expected, Rule.DENSE, f"index {entry.raft_index} follows")
        self._applied = entry.raft_index
        for op in entry.ops or ():
            self._op(op)
        if entry.closed is not None:
            self._close(entry.closed)

    def _close(self, closed: Timestamp) -> None:
        self._require(closed >= self._closed, Rule.CLOSED_RISES, f"{closed} is closed after {self._closed}")
        self._closed = max(self._closed, closed)

    # ---- ops ----

    def _op(self, op: Op) -> None:
        if isinstance(op, WriteValue | WriteIntent):
            above = op.timestamp > self._closed
            self._require(above, Rule.ABOVE_CLOSED, f"{op} with {self._closed} closed")
        if isinstance(op, WriteValue):
            self._version(op)
        elif isinstance(op, WriteIntent):
            txn = self._open.setdefault(op.txn_id, _OpenTxn(0, op.timestamp))
            txn.intents += 1
            txn.timestamp = max(txn.timestamp, op.timestamp)
        elif isinstance(op, UpdateIntent):
            if op.txn_id in self._open:
                txn = self._open[op.txn_id]
                txn.timestamp = max(txn.timestamp, op.timestamp)
        elif isinstance(op, CommitIntent):
            self._commit(op)
        elif isinstance(op, AbortIntent):
            self._end(op.txn_id, may_be_unknown=op.txn_id in self._aborted)
        elif isinstance(op, AbortTxn):
            self._aborted.add(op.txn_id)
            self._open.pop(op.txn_id, None)

    def _commit(self, op: CommitIntent) -> None:
        txn = op.txn_id.hex()
        self._require(op.txn_id not in self._aborted, Rule.AFTER_ABORT, f"{txn} commits")
        known = self._open.get(op.txn_id)
        if known is not None:
            above = op.timestamp >= known.timestamp
            self._require(above, Rule.COMMIT_TIME, f"{txn} at {known.timestamp} commits at {op.timestamp}")
            known.timestamp = max(known.timestamp, op.timestamp)
        self._version(op)
        self._end(op.txn_id, may_be_unknown=False)

    def _end(self, txn_id: TxnId, *, may_be_unknown: bool) -> None:
        txn = self._open.get(txn_id)
        if txn is None:
            self._require(
                may_be_unknown, Rule.INTENT_COUNT, f"an intent of {txn_id.hex()} ends once too often"
            )
            return
        txn.intents -= 1
        if not txn.intents:
            del self._open[txn_id]

    def _version(self, op: WriteValue | CommitIntent) -> None:
        assert self._first is not None
        key = op.key.hex()
        self._require(self._first.span.contains(op.key), Rule.IN_SPAN, f"key {key}")
        timestamp, value = self._newest.get(op.key, (ZERO, b""))
        self._require(
            op.timestamp > timestamp, Rule.VERSION_ORDER, f"{op.timestamp} of {key} after {timestamp}"
        )
        self._require(op.value is not None, Rule.VERSION_ORDER, f"{op.timestamp} of {key} has no value")
        knows = op.prev_value is None or op.prev_value == value
        self._require(knows, Rule.VERSION_ORDER, f"{op.timestamp} of {key} replaces another version")
        self._newest[op.key] = (op.timestamp, op.value)

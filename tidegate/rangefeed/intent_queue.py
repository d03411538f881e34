"""Open transactions of a range, oldest first.

The log says that a transaction wrote intents, moved them and resolved them, but not where; so intents
are counted per transaction. Source: CockroachDB ``rangefeed/resolved_timestamp.go``
(``unresolvedIntentQueue``).
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heapify, heappop, heappush

from tidegate.hlc import Timestamp
from tidegate.raftlog.entry import TxnId


class TrackedTxn:
    """A transaction with ``refs`` open intents, none of them below ``timestamp``."""

    __slots__ = ("anchor_key", "min_timestamp", "refs", "stored", "timestamp", "txn_id")

    def __init__(
        self, txn_id: TxnId, anchor_key: bytes, min_timestamp: Timestamp, timestamp: Timestamp, refs: int
    ) -> None:
        self.txn_id = txn_id
        self.anchor_key = anchor_key
        self.min_timestamp = min_timestamp
        self.timestamp = timestamp
        self.refs = refs
        #: Whether a row of state stands for it.
        self.stored = False


class IntentQueue:
    """Transactions with open intents, ordered by (timestamp, transaction id).

    Every change returns whether the oldest timestamp rose or the oldest transaction left.

    While ``allow_negative`` is set, intents may be resolved before the scan that finds them: counts may
    then be negative. Afterwards a decrement of an unknown transaction is ignored.

    The heap keeps an item for each timestamp that a transaction ever had; stale ones are dropped when
    they surface, or all at once when they outnumber the live ones.

    ``changed`` and ``gone`` name the transactions whose stored row is out of date: a transaction that came
    and went between two freezes appears in neither.
    """

    __slots__ = ("_heap", "_txns", "allow_negative", "changed", "gone")

    def __init__(self, *, allow_negative: bool) -> None:
        self.allow_negative = allow_negative
        self._txns: dict[TxnId, TrackedTxn] = {}
        self._heap: list[tuple[Timestamp, TxnId]] = []
        self.changed: set[TxnId] = set()
        self.gone: set[TxnId] = set()

    def __len__(self) -> int:
        return len(self._txns)

    def __iter__(self) -> Iterator[TrackedTxn]:
        return iter(self._txns.values())

    def get(self, txn_id: TxnId) -> TrackedTxn | None:
        """The transaction if it is tracked."""
        return self._txns.get(txn_id)

    def oldest(self) -> TrackedTxn | None:
        """The transaction with the lowest timestamp, among equals the one with the lowest id."""
        heap, txns = self._heap, self._txns
        while heap:
            timestamp, txn_id = heap[0]
            txn = txns.get(txn_id)
            if txn is not None and txn.timestamp == timestamp:
                return txn
            heappop(heap)
        return None

    def below(self, timestamp: Timestamp) -> list[TrackedTxn]:
        """The transactions strictly below ``timestamp``, oldest first."""
        found = [txn for txn in self._txns.values() if txn.timestamp < timestamp]
        return sorted(found, key=lambda txn: (txn.timestamp, txn.txn_id))

    def lacking_intents(self) -> list[TrackedTxn]:
        """The transactions whose count is not positive: none may be left when negative counts end."""
        return [txn for txn in self._txns.values() if txn.refs <= 0]

    def increment(
        self, txn_id: TxnId, anchor_key: bytes, min_timestamp: Timestamp, timestamp: Timestamp
    ) -> bool:
        """Count one more intent at ``timestamp``."""
        txn = self._txns.get(txn_id)
        if txn is None:
            return self._add(TrackedTxn(txn_id, anchor_key, min_timestamp, timestamp, 1))
        if not txn.anchor_key:
            txn.anchor_key, txn.min_timestamp = anchor_key, min_timestamp
        return self._count(txn, 1, timestamp)

    def decrement(self, txn_id: TxnId, timestamp: Timestamp | None) -> bool:
        """Count one intent less; those that remain stand at ``timestamp`` or above."""
        txn = self._txns.get(txn_id)
        if txn is not None:
            return self._count(txn, -1, timestamp)
        if not self.allow_negative:
            return False
        zero = Timestamp(0, 0)
        return self._add(TrackedTxn(txn_id, b"", zero, timestamp or zero, -1))

    def forward(self, txn_id: TxnId, timestamp: Timestamp) -> bool:
        """Raise a tracked transaction to ``timestamp``."""
        txn = self._txns.get(txn_id)
        return txn is not None and self._forward(txn, timestamp)

    def remove(self, txn_id: TxnId) -> bool:
        """Forget the transaction, whatever its count."""
        txn = self._txns.get(txn_id)
        return txn is not None and self._drop(txn)

    def restore(self, txn: TrackedTxn) -> None:
        """Put back a transaction as it was stored."""
        self._add(txn)
        txn.stored = True
        self.changed.discard(txn.txn_id)

    def forget_all(self) -> set[TxnId]:
        """The transactions whose stored rows must go when this queue is thrown away."""
        return self.gone | {txn.txn_id for txn in self._txns.values() if txn.stored}

    def _add(self, txn: TrackedTxn) -> bool:
        self._txns[txn.txn_id] = txn
        self.changed.add(txn.txn_id)
        heappush(self._heap, (txn.timestamp, txn.txn_id))
        return False

    def _count(self, txn: TrackedTxn, delta: int, timestamp: Timestamp | None) -> bool:
        txn.refs += delta
        self.changed.add(txn.txn_id)
        if txn.refs == 0 or (txn.refs < 0 and not self.allow_negative):
            return self._drop(txn)
        return timestamp is not None and self._forward(txn, timestamp)

    def _forward(self, txn: TrackedTxn, timestamp: Timestamp) -> bool:
        if timestamp <= txn.timestamp:
            return False
        was_oldest = self.oldest() is txn
        txn.timestamp = timestamp
        self.changed.add(txn.txn_id)
        heappush(self._heap, (timestamp, txn.txn_id))
        self._shed_stale()
        return was_oldest

    def _drop(self, txn: TrackedTxn) -> bool:
        was_oldest = self.oldest() is txn
        del self._txns[txn.txn_id]
        self.changed.discard(txn.txn_id)
        if txn.stored:
            self.gone.add(txn.txn_id)
        self._shed_stale()
        return was_oldest

    def _shed_stale(self) -> None:
        if len(self._heap) > 4 * len(self._txns) + 64:
            self._heap = [(txn.timestamp, txn.txn_id) for txn in self._txns.values()]
            heapify(self._heap)

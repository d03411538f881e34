"""The open transactions of a range, oldest first.

The log says that a transaction wrote, moved or resolved an intent, but not at which key. So intents are
counted for each transaction. Source: CockroachDB ``rangefeed/resolved_timestamp.go``
(``unresolvedIntentQueue``).
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from heapq import heapify, heappop, heappush, nsmallest
from itertools import chain, islice
from typing import Final

from tidegate.hlc import MAX, Timestamp
from tidegate.raftlog.entry import TxnId
from tidegate.ranges.spilled_txns import SpilledTxns
from tidegate.ranges.tracked_txn import TrackedTxn

__all__ = ["IntentQueue", "TrackedTxn"]

#: The number of transactions, the oldest ones, that come back to memory at a time.
_OLDEST_COUNT: Final = 64
_NOWHERE: Final = (MAX, TxnId(b""))


class IntentQueue:
    """Transactions with open intents, ordered by (timestamp, transaction id).

    Each method that changes a transaction returns whether the oldest timestamp may have risen: the oldest
    transaction rose or left.

    While ``allow_negative`` is set, an intent may be resolved before the queue knows of it, so counts may be
    negative. Afterwards a decrement of an unknown transaction is ignored.

    The heap has an item for each timestamp that a transaction in memory ever had. A stale item is dropped
    when it reaches the top. All stale items are dropped when they are far more than the live ones.

    ``changed`` names the transactions whose rows of state must be written, and ``gone`` those whose rows of
    state must be deleted. A transaction that came and went since rows were last written is in neither.

    ``spill`` moves transactions out of memory; the queue answers as before. The oldest transaction and all
    transactions in ``changed`` always stay in memory. Transactions that change come back to memory.
    """

    __slots__ = (
        "_heap",
        "_spilled",
        "_spilled_from",
        "_txns",
        "allow_negative",
        "changed",
        "gone",
        "intents",
        "rows_hash",
    )

    def __init__(self, *, allow_negative: bool) -> None:
        self.allow_negative = allow_negative
        self._txns: dict[TxnId, TrackedTxn] = {}
        self._heap: list[tuple[Timestamp, TxnId]] = []
        #: The transactions outside memory; ``None`` until the first one was moved. All of them are at or
        #: above ``_spilled_from``.
        self._spilled: SpilledTxns | None = None
        self._spilled_from: tuple[Timestamp, TxnId] = _NOWHERE
        self.changed: set[TxnId] = set()
        self.gone: set[TxnId] = set()
        #: The sum of the intent counts of all transactions.
        self.intents = 0
        #: The sum of ``row_hash`` of all transactions; the caller takes it modulo 2^64.
        self.rows_hash = 0

    def __len__(self) -> int:
        return len(self._txns) if self._spilled is None else len(self._txns) + len(self._spilled)

    def __iter__(self) -> Iterator[TrackedTxn]:
        """Yield all transactions. Those outside memory are copies."""
        return chain(self._txns.values(), self._spilled or ())

    @property
    def in_memory(self) -> int:
        """The number of transactions in memory."""
        return len(self._txns)

    @property
    def spilled(self) -> int:
        """The number of transactions outside memory."""
        return 0 if self._spilled is None else len(self._spilled)

    @property
    def spill_bytes(self) -> int:
        """The number of bytes that the transactions outside memory take, before any compression."""
        return 0 if self._spilled is None else self._spilled.bytes

    def get(self, txn_id: TxnId) -> TrackedTxn | None:
        """Return the transaction, ``None`` if it is not tracked.

        If the transaction is outside memory, a copy is returned. Changes of the copy have no effect.
        """
        txn = self._txns.get(txn_id)
        return self._spilled.get(txn_id) if txn is None and self._spilled else txn

    def oldest(self) -> TrackedTxn | None:
        """Return the transaction with the lowest timestamp; among equals the one with the lowest id."""
        txn = self._oldest_in_memory() if self._heap else None
        while self._spilled and (txn is None or _age(txn) > self._spilled_from):
            self._bring_back_oldest(self._spilled)
            txn = self._oldest_in_memory()
        return txn

    def below(self, timestamp: Timestamp, limit: int | None = None) -> list[TrackedTxn]:
        """Return the oldest ``limit`` transactions strictly below ``timestamp``, oldest first. ``None`` means
        all.

        Those outside memory are copies.
        """
        found = [txn for txn in self._txns.values() if txn.timestamp < timestamp]
        if self._spilled and timestamp > self._spilled_from[0]:
            found += self._spilled.below(timestamp, limit)
        return sorted(found, key=_age) if limit is None else nsmallest(limit, found, key=_age)

    def lacking_intents(self) -> list[TrackedTxn]:
        """Return the transactions whose count is not positive.

        When ``allow_negative`` ends, there must be no such transaction.
        """
        return [txn for txn in self if txn.refs <= 0]

    def increment(
        self, txn_id: TxnId, anchor_key: bytes, min_timestamp: Timestamp, timestamp: Timestamp
    ) -> bool:
        """Count one more intent of a transaction, at ``timestamp``."""
        txn = self._find(txn_id)
        if txn is None:
            return self._add(TrackedTxn(txn_id, anchor_key, min_timestamp, timestamp, 1))
        if not txn.anchor_key:
            txn.anchor_key, txn.min_timestamp = anchor_key, min_timestamp
        return self._count(txn, 1, timestamp)

    def decrement(self, txn_id: TxnId, timestamp: Timestamp | None) -> bool:
        """Count one intent less of a transaction.

        Its other intents are at ``timestamp`` or above. ``None`` means that this is not known.
        """
        txn = self._find(txn_id)
        if txn is not None:
            return self._count(txn, -1, timestamp)
        if not self.allow_negative:
            return False
        zero = Timestamp(0, 0)
        return self._add(TrackedTxn(txn_id, b"", zero, timestamp or zero, -1))

    def forward(self, txn_id: TxnId, timestamp: Timestamp) -> bool:
        """Raise a tracked transaction to ``timestamp``."""
        txn = self._find(txn_id)
        return txn is not None and self._forward(txn, timestamp)

    def remove(self, txn_id: TxnId) -> bool:
        """Forget the transaction, whatever its count."""
        txn = self._find(txn_id)
        return txn is not None and self._drop(txn)

    # ---- for transactions that are followed outside this queue ----

    def oldest_beside(self, named: Container[TxnId]) -> TrackedTxn | None:
        """Return the oldest transaction in memory whose id is not in ``named``."""
        heap, txns = self._heap, self._txns
        places = [(heap[0], 0)] if heap else []
        while places:
            (timestamp, txn_id), place = heappop(places)
            txn = txns.get(txn_id)
            if txn is not None and txn.timestamp == timestamp and txn_id not in named:
                return txn
            for child in (2 * place + 1, 2 * place + 2):
                if child < len(heap):
                    heappush(places, (heap[child], child))
        return None

    def replace(
        self, txn_id: TxnId, refs: int, timestamp: Timestamp, anchor: tuple[bytes, Timestamp] | None
    ) -> None:
        """Note that a transaction now has ``refs`` intents and ``timestamp``.

        ``anchor`` is its anchor key and least timestamp, or ``None`` if these are as before. If the
        transaction is not tracked yet, it is added.
        """
        txn = self._txns.get(txn_id)
        if txn is None:
            anchor_key, min_timestamp = anchor or (b"", timestamp)
            self._add(TrackedTxn(txn_id, anchor_key, min_timestamp, timestamp, refs))
            return
        if anchor is not None:
            txn.anchor_key, txn.min_timestamp = anchor
        self.intents += refs - txn.refs
        txn.refs = refs
        self.changed.add(txn_id)
        self._forward(txn, timestamp)

    # ---- rows of state ----

    def restore(self, txn: TrackedTxn) -> None:
        """Put back a transaction as it was stored."""
        self._add(txn)
        txn.stored = True
        self.changed.discard(txn.txn_id)

    def stored_as(self, txn: TrackedTxn, row_hash: int) -> None:
        """Note that a row with this hash is stored for a transaction of ``changed``."""
        self.rows_hash += row_hash - txn.row_hash
        txn.row_hash = row_hash
        txn.stored = True

    def forget_all(self) -> set[TxnId]:
        """Return the ids of transactions whose stored rows must be deleted. Do not use the queue again."""
        stored = self.gone | {txn.txn_id for txn in self if txn.stored}
        if self._spilled is not None:
            self._spilled.clear()
        return stored

    # ---- outside memory ----

    def spill(self, count: int, place: Callable[[], SpilledTxns]) -> int:
        """Move up to ``count`` transactions out of memory: the ones added first. Returns how many went.

        The oldest transaction stays, and so do all whose stored row is out of date. While counts may be
        negative, all transactions stay. ``place`` is called once, when the first transaction goes.
        """
        if self.allow_negative:
            return 0
        oldest = self.oldest()
        free = (txn for txn in self._txns.values() if txn is not oldest and txn.txn_id not in self.changed)
        leaving = list(islice(free, count))
        if leaving:
            if self._spilled is None:
                self._spilled = place()
            self._spilled.add(leaving)
            lowest = min(map(_age, leaving))
            self._spilled_from = min(self._spilled_from, lowest)
            gone = {txn.txn_id for txn in leaving}
            self._txns = {txn_id: txn for txn_id, txn in self._txns.items() if txn_id not in gone}
            self._renew_heap()
        return len(leaving)

    def _find(self, txn_id: TxnId) -> TrackedTxn | None:
        """Return a transaction that is about to change; ``None`` if it is not tracked.

        If it is outside memory, it comes back first.
        """
        txn = self._txns.get(txn_id)
        if txn is None and self._spilled:
            txn = self._spilled.get(txn_id)
            if txn is not None:
                self._bring_back(self._spilled, [txn])
        return txn

    def _bring_back_oldest(self, spilled: SpilledTxns) -> None:
        found = spilled.first(_OLDEST_COUNT + 1, self._spilled_from)
        self._bring_back(spilled, found[:_OLDEST_COUNT])
        self._spilled_from = _age(found[-1]) if len(found) > _OLDEST_COUNT else _NOWHERE

    def _bring_back(self, spilled: SpilledTxns, txns: list[TrackedTxn]) -> None:
        spilled.remove(txns)
        for txn in txns:
            self._txns[txn.txn_id] = txn
            heappush(self._heap, (txn.timestamp, txn.txn_id))

    # ---- in memory ----

    def _oldest_in_memory(self) -> TrackedTxn | None:
        heap, txns = self._heap, self._txns
        while heap:
            timestamp, txn_id = heap[0]
            txn = txns.get(txn_id)
            if txn is not None and txn.timestamp == timestamp:
                return txn
            heappop(heap)
        return None

    def _add(self, txn: TrackedTxn) -> bool:
        self._txns[txn.txn_id] = txn
        self.intents += txn.refs
        self.rows_hash += txn.row_hash
        self.changed.add(txn.txn_id)
        heappush(self._heap, (txn.timestamp, txn.txn_id))
        return False

    def _count(self, txn: TrackedTxn, delta: int, timestamp: Timestamp | None) -> bool:
        txn.refs += delta
        self.intents += delta
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
        self.intents -= txn.refs
        self.rows_hash -= txn.row_hash
        self.changed.discard(txn.txn_id)
        if txn.stored:
            self.gone.add(txn.txn_id)
        self._shed_stale()
        return was_oldest

    def _shed_stale(self) -> None:
        if len(self._heap) > 4 * len(self._txns) + 64:
            self._renew_heap()

    def _renew_heap(self) -> None:
        self._heap = [(txn.timestamp, txn.txn_id) for txn in self._txns.values()]
        heapify(self._heap)


def _age(txn: TrackedTxn) -> tuple[Timestamp, TxnId]:
    return txn.timestamp, txn.txn_id

"""Open transactions of one intent queue that are kept outside memory.

A transaction is either here or in the queue's memory. Nothing here outlives the process: a restart builds it
again from the rows of state (docs/design/2026-11-21-intent-queue-beyond-memory.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from struct import Struct
from typing import Final, Protocol

from tidegate.hlc import Timestamp
from tidegate.raftlog.entry import TxnId
from tidegate.ranges.tracked_txn import TrackedTxn, pack_txn, unpack_txn

_BY_ID: Final = b"i"
_BY_TIME: Final = b"t"
_TIMESTAMP: Final = Struct(">QI")
#: A prefix followed by these bytes is above every key that begins with the prefix.
_END: Final = b"\xff" * 64


class SpillStore(Protocol):
    """An ordered store of bytes outside memory, which the engine provides.

    Several threads may use it at the same time.
    """

    def get(self, key: bytes) -> bytes | None: ...

    def scan(self, start: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Yield the keys from ``start`` on and below ``end``, in order, with their values.

        They are those that the store had when the scan began.
        """
        ...

    def write(self, puts: Iterable[tuple[bytes, bytes]], deletes: Iterable[bytes]) -> None: ...

    def delete_range(self, start: bytes, end: bytes) -> None: ...


class SpilledTxns:
    """The transactions of one queue in ``store``, under keys that begin with ``prefix``.

    Each is stored twice, as a whole: under its id, and under its timestamp and id.
    """

    __slots__ = ("_ids", "_length", "_prefix", "_store", "_times", "bytes")

    def __init__(self, store: SpillStore, prefix: bytes) -> None:
        self._store = store
        self._prefix = prefix
        self._ids = _BY_ID + prefix
        self._times = _BY_TIME + prefix
        self._length = 0
        #: The bytes of all keys and values that are stored, before any compression.
        self.bytes = 0

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[TrackedTxn]:
        start = len(self._ids)
        for key, packed in self._store.scan(self._ids, self._ids + _END):
            yield unpack_txn(TxnId(key[start:]), packed)

    def add(self, txns: Iterable[TrackedTxn]) -> None:
        """Add transactions that have a row of state and are not here yet."""
        self._store.write(self._rows(txns), ())

    def get(self, txn_id: TxnId) -> TrackedTxn | None:
        """Return a copy of a transaction; ``None`` if it is not here."""
        packed = self._store.get(self._ids + txn_id)
        return None if packed is None else unpack_txn(txn_id, packed)

    def remove(self, txns: Iterable[TrackedTxn]) -> None:
        """Forget transactions. None of them may have changed since it was added."""
        self._store.write((), self._keys(txns))

    def first(self, limit: int, start: tuple[Timestamp, TxnId]) -> list[TrackedTxn]:
        """Return the first ``limit`` transactions in order of (timestamp, id).

        No transaction may be below ``start``. A store is slow to find its first row if many rows before it
        were removed. ``start`` lets it pass over those.
        """
        timestamp, txn_id = start
        begin = self._times + _TIMESTAMP.pack(*timestamp) + txn_id
        return self._in_order(islice(self._store.scan(begin, self._times + _END), limit))

    def below(self, end: Timestamp, limit: int | None = None) -> list[TrackedTxn]:
        """Return the first ``limit`` transactions strictly below ``end``, by (timestamp, id). ``None`` means
        all.
        """
        last = self._times + _TIMESTAMP.pack(*end)
        return self._in_order(islice(self._store.scan(self._times, last), limit))

    def clear(self) -> None:
        """Forget all transactions."""
        forget_prefix(self._store, self._prefix)
        self._length = self.bytes = 0

    def _in_order(self, rows: Iterable[tuple[bytes, bytes]]) -> list[TrackedTxn]:
        start = len(self._times) + _TIMESTAMP.size
        return [unpack_txn(TxnId(key[start:]), packed) for key, packed in rows]

    def _rows(self, txns: Iterable[TrackedTxn]) -> Iterator[tuple[bytes, bytes]]:
        for txn in txns:
            by_id, by_time, packed = self._by_id(txn), self._by_time(txn), pack_txn(txn)
            self._length += 1
            self.bytes += len(by_id) + len(by_time) + 2 * len(packed)
            yield by_id, packed
            yield by_time, packed

    def _keys(self, txns: Iterable[TrackedTxn]) -> Iterator[bytes]:
        for txn in txns:
            by_id, by_time = self._by_id(txn), self._by_time(txn)
            self._length -= 1
            self.bytes -= len(by_id) + len(by_time) + 2 * len(pack_txn(txn))
            yield by_id
            yield by_time

    def _by_id(self, txn: TrackedTxn) -> bytes:
        return self._ids + txn.txn_id

    def _by_time(self, txn: TrackedTxn) -> bytes:
        return self._times + _TIMESTAMP.pack(*txn.timestamp) + txn.txn_id


def forget_prefix(store: SpillStore, prefix: bytes) -> None:
    """Forget the transactions of all queues whose prefix begins with ``prefix``."""
    for kind in (_BY_ID + prefix, _BY_TIME + prefix):
        store.delete_range(kind, kind + _END)

"""A transaction as an intent queue tracks it, and its form outside memory."""

from __future__ import annotations

from struct import Struct
from typing import Final

from tidegate.hlc import Timestamp
from tidegate.raftlog.entry import TxnId

#: The timestamp and the least timestamp (each as wall, logical), the count of intents, and the hash of the
#: stored row. The anchor key follows.
_PACKED: Final = Struct(">QIQIqQ")


class TrackedTxn:
    """A transaction with ``refs`` open intents, none of them below ``timestamp``."""

    __slots__ = ("anchor_key", "min_timestamp", "refs", "row_hash", "stored", "timestamp", "txn_id")

    def __init__(
        self, txn_id: TxnId, anchor_key: bytes, min_timestamp: Timestamp, timestamp: Timestamp, refs: int
    ) -> None:
        self.txn_id = txn_id
        self.anchor_key = anchor_key
        self.min_timestamp = min_timestamp
        self.timestamp = timestamp
        self.refs = refs
        #: Whether it has a row of state.
        self.stored = False
        #: The 64-bit hash of that row; 0 without one.
        self.row_hash = 0


def pack_txn(txn: TrackedTxn) -> bytes:
    """Encode a stored transaction without its id.

    Only this process reads it: the form may change at any time.
    """
    at, least = txn.timestamp, txn.min_timestamp
    packed = _PACKED.pack(at.wall, at.logical, least.wall, least.logical, txn.refs, txn.row_hash)
    return packed + txn.anchor_key


def unpack_txn(txn_id: TxnId, packed: bytes) -> TrackedTxn:
    """Return the stored transaction that ``pack_txn`` was given."""
    wall, logical, min_wall, min_logical, refs, row_hash = _PACKED.unpack_from(packed)
    timestamp = Timestamp(wall, logical)
    least = Timestamp(min_wall, min_logical)
    txn = TrackedTxn(
        txn_id, packed[_PACKED.size :], timestamp if least == timestamp else least, timestamp, refs
    )
    txn.stored, txn.row_hash = True, row_hash
    return txn

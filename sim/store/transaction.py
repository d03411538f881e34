"""Transactions of the simulated store, and their intents."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from tidegate.hlc import Timestamp
from tidegate.raftlog.entry import RangeId, TxnId


class SimTxnStatus(enum.Enum):
    """The status in a transaction record."""

    PENDING = "pending"
    COMMITTED = "committed"
    ABORTED = "aborted"


@dataclass(slots=True, eq=False)
class Transaction:
    """A transaction and its record. ``write_timestamp`` only rises, and becomes the commit timestamp.

    ``expires_ns`` is ``None`` while its coordinator lives. After the coordinator's death it is the time from
    which others may abort the transaction. ``intents`` has the keys that hold its intents, by range (a
    dictionary serves as an ordered set). ``released`` says that no coordinator will use it any more,
    ``moved`` that it was pushed after its coordinator had died.
    """

    id: TxnId
    min_timestamp: Timestamp
    write_timestamp: Timestamp
    anchor_key: bytes = b""
    status: SimTxnStatus = SimTxnStatus.PENDING
    epoch: int = 0
    expires_ns: int | None = None
    released: bool = False
    moved: bool = False
    intents: dict[RangeId, dict[bytes, None]] = field(default_factory=dict)

    @property
    def pending(self) -> bool:
        """Whether it has neither committed nor aborted."""
        return self.status is SimTxnStatus.PENDING

    def forward(self, timestamp: Timestamp) -> None:
        """Raise the write timestamp; a lower one changes nothing."""
        self.write_timestamp = max(self.write_timestamp, timestamp)

    def move_intent(self, key: bytes, source: RangeId, target: RangeId) -> None:
        """Note that another range holds the intent at ``key`` now."""
        keys = self.intents[source]
        del keys[key]
        if not keys:
            del self.intents[source]
        self.intents.setdefault(target, {})[key] = None

    def older_than(self, other: Transaction) -> bool:
        """Return whether this transaction wins a conflict.

        The order is total, so waiting never goes in a circle.
        """
        return (self.min_timestamp, self.id) < (other.min_timestamp, other.id)


@dataclass(slots=True, eq=False)
class Intent:
    """A provisional version. Only intents of the transaction's last epoch commit with it."""

    txn: Transaction
    epoch: int
    timestamp: Timestamp
    value: bytes

    @property
    def commits(self) -> bool:
        """Whether the intent becomes a version, now that its transaction has ended."""
        return self.txn.status is SimTxnStatus.COMMITTED and self.epoch == self.txn.epoch

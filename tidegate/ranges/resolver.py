"""Decides a range's resolved timestamp.

    resolved = min(closed, prev(oldest open intent)), logical part set to zero

Within one resolver the resolved timestamp never falls. No version at or below it can appear any more: nothing
new comes at or below the closed timestamp, and no open intent is left there that could become a version.
Source: CockroachDB ``rangefeed/resolved_timestamp.go``; differences from the RangeFeed RFC are listed in
docs/architecture.md. The kernel decides in the same way, in ``kernel/src/range.rs``: change both together.
"""

from __future__ import annotations

from tidegate.errors import ForbiddenOp
from tidegate.hlc import ZERO_CLOSED, ZERO_RESOLVED, ClosedTimestamp, ResolvedTimestamp, Timestamp
from tidegate.raftlog.entry import (
    AbortIntent,
    AbortTxn,
    CommitIntent,
    DeleteRange,
    Op,
    UpdateIntent,
    WriteIntent,
    WriteValue,
)
from tidegate.ranges.intent_queue import IntentQueue


class Resolver:
    """Follows the logical ops and closed timestamps of one range generation.

    Before ``initialise`` the resolved timestamp stays zero: intents older than the log may be unknown.
    Methods that can change the resolved timestamp return whether it rose. An op that the rules forbid raises
    ``ForbiddenOp`` and changes nothing.
    """

    __slots__ = ("closed", "initialised", "queue", "resolved")

    def __init__(self) -> None:
        self.queue = IntentQueue(allow_negative=True)
        self.closed: ClosedTimestamp = ZERO_CLOSED
        self.resolved: ResolvedTimestamp = ZERO_RESOLVED
        self.initialised = False

    @classmethod
    def restored(cls, closed: ClosedTimestamp, resolved: ResolvedTimestamp) -> Resolver:
        """Return an initialised resolver as it was stored.

        The caller puts its transactions into ``queue``.
        """
        resolver = cls()
        resolver.closed, resolver.resolved = closed, resolved
        resolver.initialised, resolver.queue.allow_negative = True, False
        return resolver

    def initialise(self) -> bool:
        """Begin to resolve: all intents from before the first op are known now.

        Returns whether the resolved timestamp rose. Raises ``ForbiddenOp`` if a transaction resolved more
        intents than it is known to have written.
        """
        lacking = self.queue.lacking_intents()
        if lacking:
            raise ForbiddenOp(
                f"transaction {lacking[0].txn_id.hex()} resolved an intent that no op and no snapshot "
                "accounts for"
            )
        self.queue.allow_negative = False
        self.initialised = True
        return self._recompute()

    def forward_closed(self, closed: ClosedTimestamp) -> bool:
        """Take a closed timestamp. One at or below the highest so far changes nothing."""
        if closed <= self.closed:
            return False
        self.closed = closed
        return self._recompute()

    def apply(self, op: Op) -> bool:
        """Take one logical op, in log order."""
        return self._apply(op) and self._recompute()

    def _apply(self, op: Op) -> bool:
        """Update the queue. Returns whether the oldest timestamp in the queue may have risen."""
        queue = self.queue
        match op:
            case WriteValue():
                self._require_above(op.timestamp, "a write")
                return False
            case CommitIntent():
                return queue.decrement(op.txn_id, op.timestamp)
            case WriteIntent():
                self._require_above(op.timestamp, "an intent")
                return queue.increment(op.txn_id, op.anchor_key, op.min_timestamp, op.timestamp)
            case UpdateIntent():
                return queue.forward(op.txn_id, op.timestamp)
            case AbortIntent():
                return queue.decrement(op.txn_id, None)
            case AbortTxn():
                # Before initialisation the counts are incomplete. If the transaction were removed, later
                # counts would be wrong.
                return self.initialised and queue.remove(op.txn_id)
            case DeleteRange():
                self._require_above(op.timestamp, "a range deletion")
                return False

    def _require_above(self, timestamp: Timestamp, what: str) -> None:
        if timestamp <= self.resolved:
            raise ForbiddenOp(f"{what} at {timestamp}, at or below the resolved timestamp {self.resolved}")

    def _recompute(self) -> bool:
        if not self.initialised:
            return False
        # Only the wall parts of both candidates count, since the logical part is set to zero. This runs for
        # every op, so a timestamp object is made only when the resolved timestamp rises.
        wall = self.closed.wall
        oldest = self.queue.oldest()
        if oldest is not None:
            timestamp = oldest.timestamp
            if timestamp <= self.resolved:
                self._require_above(timestamp, f"an open intent of transaction {oldest.txn_id.hex()}")
            wall = min(wall, timestamp.wall if timestamp.logical else timestamp.wall - 1)
        if wall <= self.resolved.wall:
            return False
        self.resolved = ResolvedTimestamp(Timestamp(wall, 0))
        return True

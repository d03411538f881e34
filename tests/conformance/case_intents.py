"""The intents of a case's transactions: what happens to each, op by op.

A case's op is one op of the log. It names its transaction, and the key where it matters which intent is
meant: without one, a commit or an abortion is that of the transaction's oldest intent that is open.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum, auto
from typing import NamedTuple

from tidegate.hlc import Timestamp
from tidegate.rows import Datum


class RowVersion(NamedTuple):
    """A version of a row: its datums, and those that it replaced. ``None`` for no row."""

    table_id: int
    key: tuple[Datum, ...]
    values: tuple[Datum, ...] | None
    previous: tuple[Datum, ...] | None


class IntentOp(Enum):
    """The effect of an op of the log on an intent."""

    WRITTEN = auto()
    MOVED = auto()
    COMMITTED = auto()
    ABORTED = auto()
    ABORTED_WITH_TXN = auto()


@dataclass(frozen=True, slots=True)
class Intent:
    """An op on a version that a transaction writes as an intent; its other intents are left alone."""

    timestamp: Timestamp
    version: RowVersion
    txn: str
    op: IntentOp = IntentOp.WRITTEN


@dataclass(slots=True)
class OpenIntents:
    """The intents that are neither committed nor aborted, in the order in which they were written."""

    _open: dict[tuple[str, tuple[Datum, ...]], Intent] = field(default_factory=dict)

    def write(self, intent: Intent) -> Intent:
        """Open an intent, or write it again."""
        self._open[intent.txn, intent.version.key] = intent
        return intent

    def move(self, txn: str, timestamp: Timestamp) -> list[Intent]:
        """All open intents of the transaction, moved to a timestamp. Raises ``ValueError`` for none."""
        return [
            replace(intent, timestamp=timestamp, op=IntentOp.MOVED)
            for (owner, _), intent in self._open.items()
            if owner == txn
        ] or _none_of(txn)

    def close(self, txn: str, key: tuple[Datum, ...] | None, op: IntentOp, timestamp: Timestamp) -> Intent:
        """Take away the intent under a key, or the oldest one. Raises ``ValueError`` for none."""
        for owner, found in self._open:
            if owner == txn and key in (None, found):
                return replace(self._open.pop((owner, found)), timestamp=timestamp, op=op)
        return _none_of(txn)[0]

    def abort(self, txn: str, timestamp: Timestamp) -> list[Intent]:
        """Take all open intents of the transaction away. Raises ``ValueError`` for none."""
        found = [intent for (owner, _), intent in self._open.items() if owner == txn] or _none_of(txn)
        self._open = {place: intent for place, intent in self._open.items() if place[0] != txn}
        return [replace(each, timestamp=timestamp, op=IntentOp.ABORTED_WITH_TXN) for each in found]

    def has(self, key: tuple[Datum, ...]) -> bool:
        """Whether any transaction has an open intent under the key."""
        return any(found == key for _, found in self._open)


def _none_of(txn: str) -> list[Intent]:
    raise ValueError(f"the case has no open intent of transaction {txn} here")

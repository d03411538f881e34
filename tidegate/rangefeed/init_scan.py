"""Makes ops of the intents that are older than a range's log. A resolver takes them before it is initialised.

Source: CockroachDB ``rangefeed/task.go`` (``SeparatedIntentScanner``).
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from tidegate.hlc import ZERO, Timestamp
from tidegate.raftlog.entry import TxnId, WriteIntent
from tidegate.spans import Span


class LockStrength(enum.Enum):
    """The strength of a lock. Only intents hold resolved timestamps back."""

    SHARED = "shared"
    EXCLUSIVE = "exclusive"
    INTENT = "intent"


class Lock(NamedTuple):
    """A replicated lock as the store holds it. ``timestamp`` is that of the provisional value."""

    key: bytes
    txn_id: TxnId
    anchor_key: bytes
    timestamp: Timestamp
    strength: LockStrength = LockStrength.INTENT
    min_timestamp: Timestamp = ZERO


def intents_in(span: Span, locks: Iterable[Lock]) -> Iterator[WriteIntent]:
    """Yield an op for each intent in ``span``, in the order of ``locks``, which must be in key order."""
    for lock in locks:
        if lock.strength is LockStrength.INTENT and span.contains(lock.key):
            yield WriteIntent(lock.txn_id, lock.anchor_key, lock.timestamp, lock.min_timestamp)

"""What ranges leave to those that come from them: the checker's side of splits and merges.

The records of two ranges stand in no order: a child's first snapshot may come before its parent's trigger.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tidegate.hlc import Timestamp
from tidegate.logcheck.memory import Recent
from tidegate.raftlog.entry import HistoryMutation, Parent, RangeId, TxnId
from tidegate.spans import Span


@dataclass(slots=True)
class CheckedTxn:
    """How many intents of a transaction are open, and the highest timestamp that they were seen at."""

    intents: int
    timestamp: Timestamp


@dataclass(frozen=True, slots=True)
class Estate:
    """A range at a split or merge trigger, or at its end.

    ``ancestors`` are the ranges, itself among them, whose versions of its keys stand before it for certain:
    up to a serial number. Those above ``known_since`` are known with what they replaced; with ``forgotten``
    there may be keys whose newest version nobody knows. In a ``hole`` that goes on, the intents are not known
    either, and ``high`` may be too low.
    ``told`` is the last mutation by its last snapshot, ``mutated`` one since, with what its time is above.
    ``claims`` are the spans and intents that the ranges after a split have taken over.
    """

    span: Span
    known_since: int
    ancestors: Mapping[RangeId, int]
    open: dict[TxnId, CheckedTxn]
    aborted: frozenset[TxnId]
    closed: Timestamp
    high: Timestamp
    forgotten: bool
    hole: bool
    told: HistoryMutation | None = None
    mutated: HistoryMutation | None = None
    claims: list[tuple[Span, Counter[TxnId]]] = field(default_factory=list)

    @property
    def intents(self) -> Counter[TxnId]:
        """How many intents each transaction had."""
        return Counter({txn_id: txn.intents for txn_id, txn in self.open.items()})

    def claim_intents(self, span: Span, intents: Counter[TxnId]) -> bool:
        """Take over a part; False when all of the span is taken, but not exactly all intents."""
        self.claims.append((span, intents))
        if self.hole or sorted(claimed.start for claimed, _ in self.claims)[0] != self.span.start:
            return True
        whole = max(claimed.end for claimed, _ in self.claims) == self.span.end
        total: Counter[TxnId] = sum((counts for _, counts in self.claims), Counter())
        return not whole or total == self.intents

    def can_be_claimed(self, span: Span) -> bool:
        """Whether a range after a split may hold ``span``: all of it was here, and nobody has taken it."""
        within = span.intersect(self.span) == span
        return within and not any(span.overlaps(claimed) for claimed, _ in self.claims)


class Lineage:
    """The estates, by what a snapshot says of them: the last ``limit`` of them.

    ``skipped`` tells whether an index is in a hole, or in a part of the log that is gone.
    """

    def __init__(self, skipped: Callable[[Parent], bool], limit: int = 100_000) -> None:
        self._estates: Recent[Parent, Estate] = Recent(limit)
        self._skipped = skipped

    def leave(self, parent: Parent, estate: Estate) -> None:
        """Note what a range left."""
        self._estates.put(parent, estate)

    def of(self, parent: Parent) -> Estate | None:
        """What a parent left, ``None`` when it did not come so far; see ``is_known``."""
        return self._estates.get(parent)

    def is_known(self, parent: Parent) -> bool:
        """Whether the log has shown that place of the parent, or that it will never be shown."""
        return parent in self._estates or self._skipped(parent)

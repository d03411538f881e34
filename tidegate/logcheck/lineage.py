"""What ranges leave to their children: the check of splits and merges.

The records of two ranges have no common order: a child's first Snapshot may come before its parent's trigger.
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
    """The number of a transaction's open intents, and the highest timestamp of any of them."""

    intents: int
    timestamp: Timestamp


@dataclass(frozen=True, slots=True)
class Estate:
    """What a range leaves at a split or merge trigger, or at its end.

    * ``ancestors``: the ranges, itself too, whose versions of its keys are before this point for certain,
      each up to a serial number.
    * ``known_since``: the newest version of a key is known for certain if its serial number is above this.
      With ``forgotten`` there may be keys whose newest version is not known at all.
    * ``hole``: the range is in a hole. Its intents are not known then, and ``high`` may be too low.
    * ``told``: the last mutation that its last Snapshot told.
    * ``mutated``: a mutation since then. Its ``time`` is a time that the mutation's own time must be above.
    * ``claims``: the spans and intents that children have taken over after a split.
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
        """The number of open intents of each transaction."""
        return Counter({txn_id: txn.intents for txn_id, txn in self.open.items()})

    def claim_intents(self, span: Span, intents: Counter[TxnId]) -> bool:
        """Note that a child has taken over a span, with the intents that its Snapshot lists.

        Returns False if children have taken all of the range's span by now, and their intents are not exactly
        those of the range.
        """
        self.claims.append((span, intents))
        if self.hole or sorted(claimed.start for claimed, _ in self.claims)[0] != self.span.start:
            return True
        whole = max(claimed.end for claimed, _ in self.claims) == self.span.end
        total: Counter[TxnId] = sum((counts for _, counts in self.claims), Counter())
        return not whole or total == self.intents

    def can_be_claimed(self, span: Span) -> bool:
        """Whether a child may have ``span``: all of it was in the range, and no other child has taken it."""
        within = span.intersect(self.span) == span
        return within and not any(span.overlaps(claimed) for claimed, _ in self.claims)


class Lineage:
    """The last ``limit`` estates, each under the ``Parent`` by which a child's Snapshot names it.

    ``skipped`` tells whether an index of a range will never be shown: it is in a hole, or before the
    beginning of the log.
    """

    def __init__(self, skipped: Callable[[Parent], bool], limit: int = 100_000) -> None:
        self._estates: Recent[Parent, Estate] = Recent(limit)
        self._skipped = skipped

    def leave(self, parent: Parent, estate: Estate) -> None:
        """Note the estate of a range: the keys and intents that it had at an index, for its children."""
        self._estates.put(parent, estate)

    def of(self, parent: Parent) -> Estate | None:
        """Return what a parent left; ``None`` if its log has not come to that index. See ``is_known``."""
        return self._estates.get(parent)

    def is_known(self, parent: Parent) -> bool:
        """Whether the log has shown the parent at that index, or has shown that it never will."""
        return parent in self._estates or self._skipped(parent)

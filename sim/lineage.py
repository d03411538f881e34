"""What ranges leave to those that come from them: the checker's side of splits and merges.

The records of two ranges stand in no order: a child's first snapshot may come before its parent's trigger.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from tidegate.hlc import Timestamp
from tidegate.raftlog.entry import Parent, TxnId
from tidegate.spans import Span


@dataclass(slots=True)
class OpenTxn:
    """How many intents of a transaction are open, and the highest timestamp that they were seen at."""

    intents: int
    timestamp: Timestamp


@dataclass(frozen=True, slots=True)
class Estate:
    """A range at a split or merge trigger, or at its end.

    ``newest`` has the newest version of each key; with ``forgotten`` entries were skipped, and it may lack
    some. ``claims`` are the spans and intents that the ranges after a split have taken over.
    """

    span: Span
    newest: dict[bytes, tuple[Timestamp, bytes | None]]
    open: dict[TxnId, OpenTxn]
    aborted: frozenset[TxnId]
    closed: Timestamp
    high: Timestamp
    forgotten: bool
    claims: list[tuple[Span, Counter[TxnId]]] = field(default_factory=list)

    @property
    def intents(self) -> Counter[TxnId]:
        """How many intents each transaction had."""
        return Counter({txn_id: txn.intents for txn_id, txn in self.open.items()})

    def claim(self, span: Span, intents: Counter[TxnId]) -> bool:
        """Take over a part; False when all of the span is taken, but not exactly all intents."""
        self.claims.append((span, intents))
        bounds = sorted(claimed for claimed, _ in self.claims)
        whole = bounds[0].start == self.span.start and bounds[-1].end == self.span.end
        claimed: Counter[TxnId] = sum((counts for _, counts in self.claims), Counter())
        return not whole or self.forgotten or claimed == self.intents


class Lineage:
    """The estates, by what a snapshot says of them. ``skipped`` tells whether an index is in a hole."""

    def __init__(self, skipped: Callable[[Parent], bool]) -> None:
        self._estates: dict[Parent, Estate] = {}
        self._skipped = skipped

    def leave(self, parent: Parent, estate: Estate) -> None:
        """Note what a range left."""
        self._estates[parent] = estate

    def of(self, parent: Parent) -> Estate | None:
        """What a parent left, ``None`` when it did not come so far; see ``is_known``."""
        return self._estates.get(parent)

    def is_known(self, parent: Parent) -> bool:
        """Whether the log has shown that place of the parent, or that it will never be shown."""
        return parent in self._estates or self._skipped(parent)

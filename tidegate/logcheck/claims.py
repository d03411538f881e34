"""The keys and intents of a split range that its children have taken over."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Mapping
from typing import Final

from tidegate.logcheck.memory import CheckedTxn
from tidegate.raftlog.entry import TxnId
from tidegate.spans import Span

#: The most separate parts of a range's keys that are noted as children's. A split has two children.
PARTS_MAX: Final = 1_000


class Claims:
    """The keys that children have taken over, as spans that do not touch, and the number of their intents."""

    __slots__ = ("_complete", "_counts", "_ends", "_fit", "_starts", "forgot")

    def __init__(self) -> None:
        self._starts: list[bytes] = []
        self._ends: list[bytes] = []
        #: How many intents of each transaction children have listed, while these fit the range's own intents.
        self._counts: Counter[TxnId] = Counter()
        self._fit = True
        #: The number of transactions whose intents are all listed.
        self._complete = 0
        #: Whether a claim was not noted, since there are too many.
        self.forgot = False

    def overlap(self, span: Span) -> bool:
        """Whether any child has keys of a span."""
        first = bisect_right(self._ends, span.start)
        return first < len(self._starts) and self._starts[first] < span.end

    def reach(self, span: Span) -> bool:
        """Whether children have the first and the last keys of a span."""
        return bool(self._starts) and (self._starts[0], self._ends[-1]) == span

    def take_keys(self, span: Span) -> None:
        """Note the keys of a child."""
        first, last = bisect_left(self._ends, span.start), bisect_right(self._starts, span.end)
        if first == last and len(self._starts) >= PARTS_MAX:
            self.forgot = True
            return
        start = min([span.start, *self._starts[first:last][:1]])
        end = max([span.end, *self._ends[first:last][-1:]])
        self._starts[first:last], self._ends[first:last] = [start], [end]

    def take_intents(self, intents: Mapping[TxnId, int], left: Mapping[TxnId, CheckedTxn]) -> bool:
        """Note a child's intents. Returns whether all children together list exactly those of ``left``."""
        if self._fit:
            self._count(intents, left)
        return self._fit and self._complete == len(left)

    def forget_intents(self) -> None:
        """Forget the intents, because they are not compared any more."""
        self._fit, self._counts = False, Counter()

    def _count(self, intents: Mapping[TxnId, int], left: Mapping[TxnId, CheckedTxn]) -> None:
        for txn_id, count in intents.items():
            txn = left.get(txn_id)
            listed = self._counts[txn_id] + count
            if txn is None or listed > txn.intents:
                self.forget_intents()  # claims only grow, so they never fit again
                return
            self._counts[txn_id] = listed
            self._complete += listed == txn.intents

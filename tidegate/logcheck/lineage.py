"""Checks splits and merges: each child is compared with the estates of its parents.

An *estate* has the facts about a range at one index of its log: the keys and intents that it leaves to its
children. The records of two ranges have no common order: a child's first Snapshot may come before its
parent's trigger.

The number and the size of estates have bounds, and so has the time to copy them. If an estate was forgotten,
a child is not compared with it, and counts as ``undecided``.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from tidegate.hlc import Timestamp
from tidegate.logcheck.claims import Claims
from tidegate.logcheck.memory import CheckedTxn, CheckLimits, CopyCredit
from tidegate.raftlog.entry import HistoryMutation, Parent, RaftIndex, RangeId, TxnId
from tidegate.spans import Span


@dataclass(frozen=True, slots=True)
class Estate:
    """The facts about a range at a trigger, or at its end. Its children are checked against these facts.

    * ``ancestors``: the ranges whose versions of its keys certainly came before this point. Each has the
      serial number up to which this is certain. The range itself is among them.
    * ``known_since``: the newest version of a key is known for certain if its serial number is above this.
      With ``forgotten`` there may be keys whose newest version is not known at all.
    * ``hole``: the range is in a hole. Its intents are not known then, and ``high`` may be too low.
    * ``told``: the last mutation, as its last Snapshot told it.
    * ``mutated``: the last mutation after that Snapshot. Its ``time`` is a bound: the mutation's own time
      must be above it.
    * ``stripped``: the check has forgotten the range's transactions and ancestors. The range counts as in a
      hole then.
    * ``lost_aborted``: the check has forgotten aborted transactions of the range, or of a range before it. So
      there may be more than ``aborted`` has.
    * ``claims``: the keys and intents that children have taken over after a split.
    """

    span: Span
    known_since: int
    ancestors: Mapping[RangeId, int]
    open: Mapping[TxnId, CheckedTxn]
    aborted: tuple[TxnId, ...]
    closed: Timestamp
    high: Timestamp
    forgotten: bool
    hole: bool
    told: HistoryMutation | None = None
    mutated: HistoryMutation | None = None
    stripped: bool = False
    lost_aborted: bool = False
    claims: Claims = field(default_factory=Claims)

    @property
    def entries(self) -> int:
        """The number of transactions and ancestors in the estate: they take most of its memory."""
        return len(self.open) + len(self.aborted) + len(self.ancestors)

    def claim_intents(self, span: Span, intents: Counter[TxnId]) -> bool:
        """Note that a child has taken over a span, with the intents that its Snapshot lists.

        Returns False if children have the first and the last keys of the range by now, and their intents are
        not exactly those of the range.
        """
        self.claims.take_keys(span)
        if self.hole:
            return True
        return self.claims.take_intents(intents, self.open) or not self.claims.reach(self.span)

    def can_be_claimed(self, span: Span) -> bool:
        """Whether a child may have ``span``: all of it was in the range, and no other child has taken it."""
        return span.intersect(self.span) == span and not self.claims.overlap(span)

    def without_transactions(self) -> Estate:
        """Return the same estate without its transactions and ancestors."""
        self.claims.forget_intents()
        return replace(self, ancestors={}, open={}, aborted=(), hole=True, stripped=True)


class Skipped(NamedTuple):
    """The last index of a range that its log has skipped, or that was before the log's beginning."""

    range_id: RangeId
    upto: RaftIndex


class Lineage:
    """The last estates, each under the ``Parent`` by which a child's Snapshot names it.

    ``skipped`` tells whether an index of a range will never be shown: it is in a hole, or before the
    beginning of the log. ``passed`` tells whether a range's log was checked up to an index.
    """

    def __init__(
        self, skipped: Callable[[Parent], bool], passed: Callable[[Parent], bool], limits: CheckLimits
    ) -> None:
        self._estates: OrderedDict[Parent, Estate] = OrderedDict()
        #: The estates that have their transactions still, the oldest first.
        self._whole: OrderedDict[Parent, None] = OrderedDict()
        self._entries = 0
        self._limits = limits
        self._skipped = skipped
        self._passed = passed
        self._forgot = False
        self.credit = CopyCredit(limits.aborted)
        #: The number of Snapshots that were not compared with all that their parents left. Some of it was
        #: forgotten, or was too much to copy.
        self.undecided = 0
        #: The estates that were left, and the indexes that were skipped, since the caller last took them out.
        #: Ranges may wait for them.
        self.news: deque[Parent | Skipped] = deque()

    def leave(self, parent: Parent, estate: Estate) -> None:
        """Note the estate of a range: the keys and intents that it had at an index, for its children."""
        self._remove(parent)
        self._estates[parent] = estate
        self._entries += estate.entries
        if not estate.stripped:
            self._whole[parent] = None
        if len(self._estates) > self._limits.estates:
            self._forgot = True
            self._remove(next(iter(self._estates)))
        while self._entries > self._limits.left and self._whole:
            self._strip(next(iter(self._whole)))
        self.news.append(parent)

    def skip(self, range_id: RangeId, upto: RaftIndex) -> None:
        """Note that a range's log will not show some indexes. ``skipped`` tells which ones."""
        self.news.append(Skipped(range_id, upto))

    def of(self, parent: Parent) -> Estate | None:
        """Return the estate that a parent left; ``None`` if there is none. It may still come while
        ``is_known`` is false.
        """
        return self._estates.get(parent)

    def is_known(self, parent: Parent) -> bool:
        """Whether the log has shown the parent at that index, or has shown that it never will."""
        return parent in self._estates or self._skipped(parent) or self._may_be_forgotten(parent)

    def is_undecided(self, parent: Parent) -> bool:
        """Whether a child cannot be compared with all that a parent left, since that was forgotten."""
        estate = self._estates.get(parent)
        if estate is None:
            return not self._skipped(parent) and self._may_be_forgotten(parent)
        return estate.stripped or estate.claims.forgot

    def _may_be_forgotten(self, parent: Parent) -> bool:
        return self._forgot and self._passed(parent)

    def _remove(self, parent: Parent) -> None:
        estate = self._estates.pop(parent, None)
        if estate is not None:
            self._entries -= estate.entries
            self._whole.pop(parent, None)

    def _strip(self, parent: Parent) -> None:
        del self._whole[parent]
        estate = self._estates[parent]
        self._entries -= estate.entries
        self._estates[parent] = estate.without_transactions()

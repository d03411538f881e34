"""Claims and hand-offs of one log partition (docs/protocols/hand-off.md).

A message between two ranges of this partition takes effect at once. Any other message goes to the partition
of its receiver.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from tidegate.hlc import ZERO_RESOLVED
from tidegate.processor.bounds import CLAIMS_MAX, UNSEEN_PARENTS_MAX
from tidegate.processor.log_clock import LEAD_MS
from tidegate.processor.table.range_table import RangeTable
from tidegate.raftlog.entry import RangeId
from tidegate.ranges.claim_answer import (
    answer_as_lost,
    answer_claim,
    give_up,
    grounds,
    look_at_heirs,
    remember,
)
from tidegate.ranges.handoff import Claim, Exchange, HandOff, receiver_of
from tidegate.ranges.range_state import RangeState, RangeStatus


class Exchanges:
    """The claims and hand-offs that the ranges of ``table`` send and get.

    ``deliver`` is called with each hand-off for a range of this partition.
    """

    def __init__(
        self,
        table: RangeTable,
        deliver: Callable[[HandOff], None],
    ) -> None:
        self._table = table
        self._ranges = table.states
        self._touch = table.touch
        self._is_here = table.is_here
        self._deliver = deliver
        self._open: dict[RangeId, None] = {}
        #: The ranges in ``_open`` of which nothing had been read when they were claimed.
        self._unseen: set[RangeId] = set()
        #: For each range, the grounds on which none of its claims has an answer. A range with a new claim is
        #: not here.
        self._waiting: dict[RangeId, tuple[object, ...]] = {}
        self._out: list[Exchange] = []

    def restore(self, state: RangeState) -> None:
        """Look after the claims on a restored range again."""
        if state.claims or state.heirs:
            self._open[state.range_id] = None
            if state.claims and state.status is RangeStatus.UNINITIALISED:
                self._unseen.add(state.range_id)

    def claim(self, claims: Iterable[Claim]) -> None:
        """Send claims to parents, each with the log time here (G1).

        A claim comes with the time that its Snapshot has closed. A single range tells that time, so it may
        raise the claim's time to ``LEAD_MS`` above log time at most, as in the log clock.
        """
        now_ms = self._table.clock.time_ms
        for claim in sorted(claims):
            told_ms = min(max(claim.told_ms, now_ms), now_ms + LEAD_MS) if now_ms else claim.told_ms
            self._route(replace(claim, told_ms=told_ms))

    def receive(self, message: Exchange) -> None:
        """Receive a message that came by the hand-off topic.

        A message for a range of another partition is passed over.
        """
        if self._is_here(receiver_of(message)):
            self._route(message)

    @property
    def claimed(self) -> list[RangeState]:
        """The ranges with claims on them that they have not answered yet, or that they remember."""
        return [self._ranges[range_id] for range_id in self._open]

    def settle(self) -> bool:
        """Answer the claims that can be answered.

        Returns whether any was answered, or any range has ended.
        """
        answered = False
        for range_id in list(self._open):
            state = self._ranges[range_id]
            if state.status is not RangeStatus.UNINITIALISED or not state.claims:
                self._unseen.discard(range_id)
            answered |= self._answer_claims(state)
            answered |= self._look_at_heirs(state)
            if not state.claims and not state.heirs:
                del self._open[range_id]
                self._unseen.discard(range_id)
                self._waiting.pop(range_id, None)
        return answered

    def end_taken_over(self) -> None:
        """End each range without a backlog that remembers a claim for all of its keys. Answer no claim yet.

        A range with a backlog is not changed by a cut log, so there is nothing new to look at.
        """
        for state in self.claimed:
            self._look_at_heirs(state)

    def _answer_claims(self, state: RangeState) -> bool:
        """Answer what can be answered, in the order of the claims. Return whether anything was.

        Most claims wait most of the time, and a range may have a thousand. So they are asked again only when
        the grounds for an answer have changed, and put in order only when one has an answer.
        """
        now = grounds(state)
        if self._waiting.get(state.range_id) == now:
            return False
        if all(answer_claim(state, claim) is None for claim in state.claims):
            self._waiting[state.range_id] = now
            return False
        for claim in sorted(state.claims):
            answer = answer_claim(state, claim)
            if answer is not None:
                self._answer(state, claim, answer)
        return True

    def answer_as_lost(self, state: RangeState, claim: Claim) -> None:
        """Answer a claim when the parent's log, up to the claim's index, is lost (G4)."""
        self._answer(state, claim, answer_as_lost(state, claim))

    def _answer(self, state: RangeState, claim: Claim, answer: HandOff) -> None:
        self._touch(state.range_id).claims.discard(claim)
        give_up(state, claim)
        remember(state, claim)
        self._route(answer)

    def _look_at_heirs(self, state: RangeState) -> bool:
        """End the range if a claim that it remembers is for all of its keys.

        Returns whether it has ended now.
        """
        if not state.heirs or state.range_id not in self._table.touched:
            return False  # nothing can have changed: only the range's own state decides
        status = state.status
        look_at_heirs(state)
        return state.status is not status

    def take_out(self) -> list[Exchange]:
        """Return the messages for other partitions since the last call."""
        out, self._out = self._out, []
        return out

    def _route(self, message: Exchange) -> None:
        if not self._is_here(receiver_of(message)):
            self._out.append(message)
        elif isinstance(message, Claim):
            if not self._has_room(message):
                self._route(HandOff(message, ZERO_RESOLVED, complete=False))
                return
            claims = self._touch(message.parent).claims
            first = message.told_first(claims)
            claims.discard(message)
            claims.add(first)
            self._open[message.parent] = None
            self._waiting.pop(message.parent, None)
        else:
            self._deliver(message)

    def _has_room(self, claim: Claim) -> bool:
        """Whether a claim may wait. If it may not, its child scans, and nothing is lost."""
        state, unseen = self._ranges.get(claim.parent), self._unseen
        if state is not None and len(state.claims) >= CLAIMS_MAX and claim not in state.claims:
            return False
        if state is None or state.status is RangeStatus.UNINITIALISED:
            if claim.parent not in unseen and len(unseen) >= UNSEEN_PARENTS_MAX:
                return False
            unseen.add(claim.parent)
        return True

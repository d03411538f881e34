"""Claims and hand-offs of one log partition (docs/ranges.md#hand-off).

Those between two of its own ranges take effect at once; the others go to the partition of their receiver.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from tidegate.hlc import ZERO_RESOLVED
from tidegate.processor.bounds import CLAIMS_MAX
from tidegate.processor.log_clock import LEAD_MS
from tidegate.processor.table.range_table import RangeTable
from tidegate.raftlog.entry import RangeId
from tidegate.ranges.claim_answer import (
    answer_as_lost,
    answer_claim,
    give_up,
    look_at_heirs,
    remember,
)
from tidegate.ranges.handoff import Claim, Exchange, HandOff, receiver_of
from tidegate.ranges.range_state import RangeState


class Exchanges:
    """Between the ranges of ``table`` and others; ``deliver`` gives a hand-off to its child."""

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
        self._out: list[Exchange] = []

    def restore(self, state: RangeState) -> None:
        """Put back the claims of a range as it was stored."""
        if state.claims or state.heirs:
            self._open[state.range_id] = None

    def claim(self, claims: Iterable[Claim]) -> None:
        """Ask parents for their hand-offs, and say what time it is here.

        A claim brings what its Snapshot has closed: that is one range's word, and counts as far as log time
        follows one range.
        """
        now_ms = self._table.clock.time_ms
        for claim in sorted(claims):
            told_ms = min(max(claim.told_ms, now_ms), now_ms + LEAD_MS) if now_ms else claim.told_ms
            self._route(replace(claim, told_ms=told_ms))

    def take(self, message: Exchange) -> None:
        """Take a message of another partition; one that is not for this partition is passed over."""
        if self._is_here(receiver_of(message)):
            self._route(message)

    @property
    def claimed(self) -> list[RangeState]:
        """The ranges with claims on them that have no answer yet, or that they remember."""
        return [self._ranges[range_id] for range_id in self._open]

    def settle(self) -> bool:
        """Answer the claims that can be answered; returns whether any was, or let a range end."""
        answered = False
        for range_id in list(self._open):
            state = self._ranges[range_id]
            answered |= self._answer_claims(state)
            answered |= self._look_at_heirs(state)
            if not state.claims and not state.heirs:
                del self._open[range_id]
        return answered

    def _answer_claims(self, state: RangeState) -> bool:
        """Answer what can be answered, in the order of the claims; returns whether anything was.

        Most claims wait most of the time, and a range may have a thousand: they are put in order only when
        one has an answer.
        """
        if all(answer_claim(state, claim) is None for claim in state.claims):
            return False
        for claim in sorted(state.claims):
            answer = answer_claim(state, claim)
            if answer is not None:
                self._answer(state, claim, answer)
        return True

    def answer_as_lost(self, state: RangeState, claim: Claim) -> None:
        """Tell a child that what its parent's log had up to the claim's index does not come."""
        self._answer(state, claim, answer_as_lost(state, claim))

    def _answer(self, state: RangeState, claim: Claim, answer: HandOff) -> None:
        self._touch(state.range_id).claims.discard(claim)
        give_up(state, claim)
        remember(state, claim)
        self._route(answer)

    def _look_at_heirs(self, state: RangeState) -> bool:
        """Find out whether the range is over; returns whether it is by this."""
        if not state.heirs or state.range_id not in self._table.touched:
            return False  # only what changes in the range itself decides it
        status = state.status
        look_at_heirs(state)
        return state.status is not status

    def take_out(self) -> list[Exchange]:
        """The messages for other partitions since the last call."""
        out, self._out = self._out, []
        return out

    def _route(self, message: Exchange) -> None:
        if not self._is_here(receiver_of(message)):
            self._out.append(message)
        elif isinstance(message, Claim):
            state = self._ranges.get(message.parent)
            if state is not None and len(state.claims) >= CLAIMS_MAX and message not in state.claims:
                self._route(HandOff(message, ZERO_RESOLVED, complete=False))
                return
            claims = self._touch(message.parent).claims
            first = message.told_first(claims)
            claims.discard(message)
            claims.add(first)
            self._open[message.parent] = None
        else:
            self._deliver(message)

"""Parks ranges before a snapshot until parents have handed off, or until a scan is done
(docs/protocols/hand-off.md).

Only the range is parked, never its partition. Its entries stay in its backlog until it stops waiting.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from tidegate.processor.batch import LogRecord
from tidegate.processor.bounds import HAND_OFFS_MAX
from tidegate.processor.feeds.changes_outside_log import Mutations
from tidegate.processor.feeds.range_waits import Unreachable, Waiting, claims_of, claims_told_by
from tidegate.processor.moving.exchange import Exchanges
from tidegate.processor.moving.healing import Healing
from tidegate.processor.table.partition_backlogs import Backlogs
from tidegate.processor.table.quarantine import Quarantines
from tidegate.processor.table.range_table import RangeTable
from tidegate.processor.table.silence import is_silent
from tidegate.raftlog.entry import Offset, Snapshot
from tidegate.raftlog.request import Scan
from tidegate.ranges.backlog import Backlog
from tidegate.ranges.claim_answer import is_within, look_at_heirs
from tidegate.ranges.handoff import Claim, HandOff
from tidegate.ranges.range_snapshot import passes_over
from tidegate.ranges.range_state import RangeState, RangeStatus

#: If no entry of a parent is read for this long after the claim's time, the entries that the claim is for are
#: lost (G4). A child that waits sends its claims again after this long (G2).
HAND_OFF_LIMIT_MS: Final = 600_000


class Parking:
    """The parked ranges of ``table``: what parks them, what they wait for, and what lets them go on.

    Claims and hand-offs go by ``exchanges``.
    """

    def __init__(
        self,
        table: RangeTable,
        backlogs: Backlogs,
        waiting: Waiting,
        healing: Healing,
        quarantines: Quarantines,
        mutations: Mutations,
        backlog_bytes: int,
    ) -> None:
        self._table = table
        self._backlogs = backlogs
        self._waiting = waiting
        self._healing = healing
        self._quarantines = quarantines
        self._mutations = mutations
        self._backlog_bytes = backlog_bytes
        self.exchanges = Exchanges(table, self._receive)

    def parks(self, state: RangeState, head: Snapshot, record: LogRecord) -> bool:
        """Park the range before the snapshot that begins with ``head``, if it has to wait.

        Returns whether it was parked.

        A range that was allowed to go on reaches the same snapshot again in its backlog. Other feeds may need
        it by then, so it may be parked again.
        """
        # The claim of an heir may have ended the range before its own log reached this snapshot.
        if state.status is RangeStatus.ENDED and head.generation > state.generation:
            self.exchanges.claim(claims_told_by(state, head))
        if passes_over(state, head):
            return False
        if state.heirs:
            state.heirs = tuple(claim for claim in state.heirs if claim.last_index >= head.raft_index)
        self._quarantines.begin_before(state, head, record)
        told = claims_told_by(state, head)
        state.hand_offs = _counting(state.hand_offs, told)
        missing = claims_of(state, head).difference(state.hand_offs)
        if missing and self._waiting.is_needed(head):
            self._hold(state, head, record, missing).asked_ms = self._table.clock.elapsed_ms
            self.exchanges.claim(missing)
            return True
        self.exchanges.claim(told.difference(state.hand_offs))
        if missing:
            self._waiting.take_unasked(state, head)
        scan = None if missing else self._waiting.scan_for(state, head, Offset(record.offset))
        if scan is None:
            return False
        self._healing.begin(state, self._hold(state, head, record, frozenset()), scan)
        return True

    def _hold(
        self, state: RangeState, head: Snapshot, record: LogRecord, missing: frozenset[Claim]
    ) -> Backlog:
        """Let the range wait. After a restart its wait goes on from the times that were stored."""
        since_ms = heard_ms = self._table.clock.elapsed_ms
        begins = state.range_id not in self._backlogs
        if begins and state.behind is not None:
            since_ms = since_ms if state.waits_since_ms is None else state.waits_since_ms
            heard_ms = heard_ms if state.heard_ms is None else state.heard_ms
        backlog = self._backlogs.hold(state.range_id, record)
        if begins:
            backlog.heard_ms = heard_ms
        backlog.wait_for(head, Offset(record.offset), since_ms, missing)
        return backlog

    def _receive(self, hand_off: HandOff) -> None:
        claim = hand_off.claim
        state, backlog = self._table.touch(claim.child), self._backlogs.get(claim.child)
        if backlog is None and state.status is not RangeStatus.UNINITIALISED and not state.awaits_snapshot:
            return  # the range has gone on without this hand-off
        head = _head_of(state, backlog)
        if head is not None and claim not in claims_told_by(state, head):
            return  # this hand-off was claimed for a snapshot that was left out
        is_missing = backlog is not None and claim in backlog.missing
        if len(state.hand_offs) >= HAND_OFFS_MAX and not is_missing and claim not in state.hand_offs:
            return  # the range has enough that came early; it claims this one when it needs it
        state.hand_offs[claim] = hand_off
        if backlog is not None and is_missing:
            backlog.missing -= {claim}
            if not backlog.missing:
                self._come_to_scan(state, backlog)

    def _come_to_scan(self, state: RangeState, backlog: Backlog) -> None:
        """Scan for what the parents did not hand off, or let the range go on. All parents have answered."""
        scan = self._waiting.scan_for(state, backlog.head, backlog.start)
        if scan is None:
            self._backlogs.clear(state.range_id)
        else:
            self._healing.begin(state, backlog, scan)

    # ---- what lets ranges go on ----

    def settle(self) -> bool:
        """Answer the claims that can be answered.

        Returns whether any was answered, or any range has ended.
        """
        self.exchanges.claim(self._backlogs.take_skipped())
        answered = self.exchanges.settle()
        if answered:
            for state, backlog in self._parked():
                if state.status is RangeStatus.ENDED:
                    self._leave(state, backlog.start, "")
        return answered

    def release_unneeded(self) -> None:
        """Let ranges go on if no feed needs them to wait any more."""
        for state, backlog in self._parked():
            if not self._waiting.is_needed(backlog.head):
                self._table.touch(state.range_id).scan = None
                self._backlogs.clear(state.range_id)

    def due(self, offset: Offset, read: Offset) -> Iterator[Scan]:
        """Yield the requests to send now, and end the waits that have lasted too long.

        The partition is at ``offset``. After a restart it reads entries again for ranges that are behind, and
        has reached ``read`` so far. Until ``read`` equals ``offset``, no backlog counts as too large. If a
        backlog were dropped, its range would miss the Snapshots that are still to be read again, with their
        claims and the keys that left the range by them.

        Silent ranges stop waiting, and so do ranges whose backlogs are too large. Claims that were not
        answered are sent again (G2). Claims on ranges here whose entries are lost are given up (G3, G4).
        """
        if read == offset:
            self._leave_largest(offset)
        now_ms = self._table.clock.elapsed_ms
        for state, backlog in self._parked():
            if is_silent(backlog.heard_ms, now_ms):
                self._leave(state, offset, "it fell silent while it waited")
                continue
            if backlog.missing and now_ms - backlog.asked_ms >= HAND_OFF_LIMIT_MS:
                backlog.asked_ms = now_ms
                self.exchanges.claim(backlog.missing)
            yield from self._healing.due(state, backlog, offset)
        for state in self.exchanges.claimed:
            if state.range_id not in self._backlogs and state.behind is None:
                self._look_for_lost(state, offset)

    def _look_for_lost(self, state: RangeState, offset: Offset) -> None:
        """Give up claims on a range when this partition has read far beyond the claims' times (G3, G4).

        Only this partition knows how far the range's log was read. The partitions of its children may be read
        at quite another time.
        """
        clock = self._table.clock
        claims = [claim for claim in (*state.claims, *state.heirs) if claim.told_ms <= clock.time_ms]
        if not claims or state.status not in (RangeStatus.UNINITIALISED, RangeStatus.LIVE):
            return
        since_ms = state.claimed_since_ms
        if since_ms is None:
            self._table.touch(state.range_id).claimed_since_ms = since_ms = clock.elapsed_ms
        passed = [claim for claim in claims if claim.told_ms + HAND_OFF_LIMIT_MS <= clock.time_ms]
        if passed and clock.elapsed_ms - since_ms >= HAND_OFF_LIMIT_MS:
            self._give_up(state, passed, offset)

    def _give_up(self, state: RangeState, claims: Sequence[Claim], offset: Offset) -> None:
        """End the range if one of these claims is for all of its keys; otherwise answer them as lost."""
        self._table.touch(state.range_id).claimed_since_ms = None
        heir = next((claim for claim in claims if is_within(state, claim.span)), None)
        if heir is not None:
            self._quarantines.begin_at(
                state,
                offset,
                f"range {heir.child} has all of its keys since index {heir.last_index}, and its log "
                f"did not come there: index {state.applied} is the last. It is over",
            )
            look_at_heirs(state)
            return
        for claim in sorted(state.claims.intersection(claims)):
            self.exchanges.answer_as_lost(state, claim)

    def _parked(self) -> Iterable[tuple[RangeState, Backlog]]:
        """Return the ranges that are parked now, as a list: callers drop backlogs while they read it."""
        states = self._table.states
        return [(states[range_id], backlog) for range_id, backlog in self._backlogs.items() if backlog.parked]

    def _leave_largest(self, offset: Offset) -> None:
        """Stop the waits of ranges with the largest backlogs, until the others together fit the bound."""
        parked = list(self._parked())
        held = sum(backlog.held_bytes for _, backlog in parked)
        if held <= self._backlog_bytes:
            return
        parked.sort(key=lambda each: each[1].held_bytes)
        while held > self._backlog_bytes:
            state, backlog = parked.pop()
            held -= backlog.held_bytes
            self._leave(
                state,
                offset,
                f"{backlog.held_bytes} bytes of its log were kept while it waited, and the ranges of a log "
                f"partition that wait may have {self._backlog_bytes} together",
            )

    def _leave(self, state: RangeState, offset: Offset, cause: str) -> None:
        """Stop the wait of a range, and drop its backlog.

        A range that has not ended is quarantined at ``offset`` with the ``cause``, and its next snapshot
        heals it. Keys that leave the range in the dropped backlog have left it all the same.
        """
        backlog = self._backlogs[state.range_id]
        if state.status is RangeStatus.QUARANTINED:
            self._quarantines.report_longer(state, offset, cause)
        elif state.status is not RangeStatus.ENDED:
            self._quarantines.begin_at(state, offset, cause)
        self._table.touch(state.range_id).scan = None
        if state.status is not RangeStatus.ENDED:
            state.behind = None  # one that has ended stays behind: the claims in its log are still to be sent
        self._mutations.leave_out(state, backlog.spans())
        self.exchanges.claim(backlog.told)
        self._backlogs.drop(state.range_id)

    @property
    def has_unreachable(self) -> bool:
        """Whether `take_unreachable` would return any."""
        return bool(self._waiting.unreachable)

    def take_unreachable(self) -> list[Unreachable]:
        """Return the scans that have begun since the last call and that may not bring everything."""
        unreachable, self._waiting.unreachable = self._waiting.unreachable, []
        return unreachable


def _counting(hand_offs: Mapping[Claim, HandOff], told: frozenset[Claim]) -> dict[Claim, HandOff]:
    """Return the hand-offs that answer a claim that the snapshot tells of.

    The others were claimed for a snapshot that was left out. Their keys may have been with another range
    since, so what the parents told may not be true any more.
    """
    return {claim: hand_off for claim, hand_off in hand_offs.items() if claim in told}


def _head_of(state: RangeState, backlog: Backlog | None) -> Snapshot | None:
    """Return the first chunk of the snapshot that a range waits at, or has begun to take, if any."""
    if backlog is not None and backlog.parked:
        return backlog.head
    return state.chunks[0] if state.chunks else None

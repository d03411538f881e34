"""The choice of the old transactions to push (docs/log-contract.md#requests).

A transaction that its client forgot holds back the resolved timestamps of its ranges for ever. A push asks
the source to end it, or to say how it ended. Age is measured by the time that two ranges have shown
(``LogClock.shown_ms``). Transactions are pushed to a timestamp that the clocks of the source have surely
reached. It is the lower of two: the timestamp that two ranges have closed, and the time that they have shown
less the time by which clocks may differ. Nothing here is stored: after a restart pushes are sent again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from tidegate.hlc import NANOS_PER_MS, Timestamp
from tidegate.processor.bounds import BOUNDS, RecordBounds
from tidegate.processor.log_clock import LogClock
from tidegate.raftlog.entry import RangeId, TxnId
from tidegate.raftlog.request import Push, PushedTxn
from tidegate.ranges.intent_queue import IntentQueue
from tidegate.ranges.push_attempt import TXNS_PER_PUSH_MAX
from tidegate.ranges.range_state import RangeState, RangeStatus
from tidegate.ranges.tracked_txn import TrackedTxn

#: The most by which the clocks of a source differ, and the most that it closes ahead of them
#: (docs/log-contract.md).
_APART_MS: Final = 2_000
_JITTER_STEPS: Final = 16
_TXN_FRAME_BYTES: Final = 16  # what a transaction takes in a request, besides its id and key
_GOLDEN_RATIO_64: Final = 0x9E3779B97F4A7C15


@dataclass(frozen=True, slots=True)
class PushPolicy:
    """The rule for pushes: a transaction is pushed when it is older than ``age_ms``, and again after
    ``repeat_ms`` without an answer.

    If it is not ``enabled`` nothing is pushed. A transaction that its client forgot then holds back resolved
    timestamps until the source ends it.
    """

    age_ms: int = 10_000
    repeat_ms: int = 5_000
    enabled: bool = True


class _Asked(NamedTuple):
    """A transaction that a push named, and the timestamp that it had then."""

    txn_id: TxnId
    timestamp: Timestamp


@dataclass(frozen=True, slots=True)
class LastPush:
    """The last push of a range, and how the log has answered it.

    It named ``txns`` transactions. Of these ``ended`` have ended, ``moved`` have moved to another timestamp,
    and the others are unchanged. It was sent at ``asked_ms`` of elapsed log time; in a status for people
    ``asked_ms`` is in log time. It was the last of ``tries`` in a row with the same oldest transaction,
    ``oldest``, which was at ``oldest_at`` each time.
    """

    asked_ms: int
    tries: int
    oldest: TxnId
    oldest_at: Timestamp
    txns: int
    ended: int
    moved: int


class _InFlight:
    """The last push of a range.

    Transactions are taken out of ``unanswered``, from the end of the list, when the log has answered them.
    """

    __slots__ = ("asked_ms", "ended", "moved", "oldest", "tries", "txns", "unanswered")

    def __init__(self, asked_ms: int, asked: list[_Asked], tries: int) -> None:
        self.asked_ms = asked_ms
        self.tries = tries
        self.oldest = asked[0]
        self.txns = len(asked)
        self.unanswered = asked
        self.ended = 0
        self.moved = 0

    def is_answered(self, queue: IntentQueue) -> bool:
        """Whether each of its transactions has ended or moved. One that has is not looked at again."""
        while self.unanswered:
            asked = self.unanswered[-1]
            txn = queue.get(asked.txn_id)
            if txn is not None and txn.timestamp == asked.timestamp:
                return False
            self.unanswered.pop()
            if txn is None:
                self.ended += 1
            else:
                self.moved += 1
        return True


class Pusher:
    """The pushes of one log partition: one in flight for a range at most.

    A push is in flight while any of its transactions is still open at the timestamp that it had then, and
    until it is time to repeat the push.
    """

    def __init__(self, policy: PushPolicy, bounds: RecordBounds = BOUNDS) -> None:
        self._policy = policy
        self._most_bytes = bounds.piece_bytes
        self._in_flight: dict[RangeId, _InFlight] = {}

    def due(self, ranges: Iterable[RangeState], clock: LogClock) -> list[Push]:
        """Return the pushes to send now, for those of ``ranges`` whose oldest transaction is too old."""
        if not self._policy.enabled:
            return []
        found, in_flight = [], self._in_flight
        for state in ranges:
            # Most ranges have no open transaction and were never asked.
            if state.resolver.queue or state.range_id in in_flight:
                push = self._push(state, clock)
                if push is not None:
                    found.append(push)
        return found

    def last(self, state: RangeState) -> LastPush | None:
        """Return the last push of a range in this run; ``None`` if there was none, or the range is not live.

        It counts the transactions that have ended or moved by now.
        """
        flight = self._in_flight.get(state.range_id)
        if flight is None or state.status is not RangeStatus.LIVE:
            return None
        ended, moved = flight.ended, flight.moved
        for asked in flight.unanswered:
            txn = state.resolver.queue.get(asked.txn_id)
            ended += txn is None
            moved += txn is not None and txn.timestamp != asked.timestamp
        return LastPush(flight.asked_ms, flight.tries, *flight.oldest, flight.txns, ended, moved)

    def _push(self, state: RangeState, clock: LogClock) -> Push | None:
        if state.status is not RangeStatus.LIVE:
            self._in_flight.pop(state.range_id, None)
            return None
        oldest = state.resolver.queue.oldest()
        if oldest is None:
            self._note_all_ended(state)
            return None
        aged_ms = clock.shown_ms - self._policy.age_ms - self._jitter_ms(state.range_id)
        come_ms = self._come_ms(clock)
        horizon_ms = min(aged_ms, come_ms)
        if oldest.timestamp.wall_ms >= horizon_ms or self._is_waiting(state, clock.elapsed_ms):
            return None
        old = state.resolver.queue.below(Timestamp(horizon_ms * NANOS_PER_MS), TXNS_PER_PUSH_MAX)
        old = old[: self._fitting(old)]
        asked = [_Asked(txn.txn_id, txn.timestamp) for txn in old]
        tries = self._tries(state.range_id, asked[0])
        self._in_flight[state.range_id] = _InFlight(clock.elapsed_ms, asked, tries)
        txns = tuple(PushedTxn(txn.txn_id, txn.anchor_key) for txn in old)
        return Push(state.range_id, txns, Timestamp(come_ms * NANOS_PER_MS))

    def _come_ms(self, clock: LogClock) -> int:
        """Return a time that has surely come at the source, on each of its nodes.

        Closed timestamps may be ahead of the source's clocks, as those of CockroachDB's global tables are.
        Only tests use an age below ``_APART_MS``.
        """
        return min(clock.closed_ms, clock.shown_ms - min(_APART_MS, self._policy.age_ms))

    def _fitting(self, txns: Sequence[TrackedTxn]) -> int:
        """Return how many of these transactions fit into one request, from the first on: one at least."""
        room = self._most_bytes
        for number, txn in enumerate(txns):
            room -= len(txn.txn_id) + len(txn.anchor_key) + _TXN_FRAME_BYTES
            if room < 0:
                return max(number, 1)
        return len(txns)

    def _is_waiting(self, state: RangeState, now_ms: int) -> bool:
        flight = self._in_flight.get(state.range_id)
        if flight is None or now_ms - flight.asked_ms >= self._policy.repeat_ms:
            return False
        return not flight.is_answered(state.resolver.queue)

    def _note_all_ended(self, state: RangeState) -> None:
        """Count the answers of a push whose transactions have all ended, so that less of it is kept."""
        flight = self._in_flight.get(state.range_id)
        if flight is not None and flight.unanswered:
            flight.is_answered(state.resolver.queue)

    def _tries(self, range_id: RangeId, oldest: _Asked) -> int:
        flight = self._in_flight.get(range_id)
        return flight.tries + 1 if flight is not None and flight.oldest == oldest else 1

    def _jitter_ms(self, range_id: RangeId) -> int:
        """Return up to a sixteenth of the age, fixed for each range, so that not all ranges push together."""
        step = (range_id * _GOLDEN_RATIO_64 >> 32) % _JITTER_STEPS
        return self._policy.age_ms * step // (_JITTER_STEPS * _JITTER_STEPS)

"""Which old transactions to push (docs/log-contract.md#requests).

A transaction that its client forgot holds its ranges' resolved timestamps back for ever. The source can
end it, or say how it ended. Age is measured by the log's own time; nothing here is stored, after a
restart the question is simply asked again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

from tidegate.hlc import NANOS_PER_MS, Timestamp
from tidegate.raftlog.entry import RangeId, TxnId
from tidegate.raftlog.request import Push, PushedTxn
from tidegate.rangefeed.range_state import RangeState, RangeStatus

_TXNS_PER_PUSH_MAX: Final = 1_000
_JITTER_STEPS: Final = 16
_GOLDEN_RATIO_64: Final = 0x9E3779B97F4A7C15


@dataclass(frozen=True, slots=True)
class PushPolicy:
    """When to push: transactions older than ``age_ms``; again after ``repeat_ms`` without an answer."""

    age_ms: int = 10_000
    repeat_ms: int = 5_000


class _Asked(NamedTuple):
    """A transaction that was named in a push, and the timestamp that it had then."""

    txn_id: TxnId
    timestamp: Timestamp


class _InFlight(NamedTuple):
    """The last push of a range; ``unanswered`` loses from its end what was answered."""

    asked_ms: int
    unanswered: list[_Asked]


class Pusher:
    """Pushes of one partition: at most one in flight per range.

    A push is in flight while one of its transactions is open at the timestamp that it was pushed at, until
    it is time to repeat it.
    """

    def __init__(self, policy: PushPolicy) -> None:
        self._policy = policy
        self._in_flight: dict[RangeId, _InFlight] = {}

    def due(self, ranges: Iterable[RangeState], log_time_ms: int) -> list[Push]:
        """The pushes to send now for those of ``ranges`` whose oldest transactions are too old."""
        return [push for state in ranges if (push := self._push(state, log_time_ms)) is not None]

    def _push(self, state: RangeState, log_time_ms: int) -> Push | None:
        oldest = state.resolver.queue.oldest()
        if state.status is not RangeStatus.LIVE or oldest is None:
            self._in_flight.pop(state.range_id, None)
            return None
        horizon_ms = log_time_ms - self._policy.age_ms - self._jitter_ms(state.range_id)
        if oldest.timestamp.wall_ms >= horizon_ms or self._is_waiting(state, log_time_ms):
            return None
        old = state.resolver.queue.below(Timestamp(horizon_ms * NANOS_PER_MS))[:_TXNS_PER_PUSH_MAX]
        asked = [_Asked(txn.txn_id, txn.timestamp) for txn in old]
        self._in_flight[state.range_id] = _InFlight(log_time_ms, asked)
        txns = tuple(PushedTxn(txn.txn_id, txn.anchor_key) for txn in old)
        return Push(state.range_id, txns, Timestamp(log_time_ms * NANOS_PER_MS))

    def _is_waiting(self, state: RangeState, log_time_ms: int) -> bool:
        flight = self._in_flight.get(state.range_id)
        if flight is None or log_time_ms - flight.asked_ms >= self._policy.repeat_ms:
            return False
        asked = flight.unanswered
        while asked:
            txn = state.resolver.queue.get(asked[-1].txn_id)
            if txn is not None and txn.timestamp == asked[-1].timestamp:
                return True
            asked.pop()  # it moved or ended, and is not looked at again
        return False

    def _jitter_ms(self, range_id: RangeId) -> int:
        """Up to a sixteenth of the age, fixed per range, so that ranges do not ask all at once."""
        step = (range_id * _GOLDEN_RATIO_64 >> 32) % _JITTER_STEPS
        return self._policy.age_ms * step // (_JITTER_STEPS * _JITTER_STEPS)

"""The outlets of all feeds of a log partition."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import structlog

from tidegate.changefeed.definition.feed import FeedId
from tidegate.changefeed.lifecycle.control import Ack, Failed, Removed
from tidegate.errors import RowRefused
from tidegate.processor.batch import OutputRecord
from tidegate.worker.output.barrier import Barrier
from tidegate.worker.output.outlet import (
    Outlet,
    OutletChange,
    OutletLimits,
    OutletReport,
    OutletState,
)
from tidegate.worker.output.row_writer import OpenRowWriter

_QUEUE_FULL_S: Final = 0.01  # librdkafka tells nobody when it has room
_TEXTS: Final = {
    OutletChange.REFUSE: "a row of the feed is refused for good; the feed fails",
    OutletChange.DETACH: "the sink does not keep up; no batch waits for the feed any more",
    OutletChange.ATTACH: "the sink keeps up again; batches wait for the feed again",
    OutletChange.STALL: "the spool is given up; scans bring the feed's rows when the sink takes rows again",
    OutletChange.RESUME: "the sink takes rows again; the feed catches up",
}

#: The changes that come before all others, in this order: batches wait for them.
_URGENT: Final = (OutletChange.REFUSE, OutletChange.DETACH)

_log = structlog.get_logger("tidegate.outlet")


class Outlets:
    """The outlets of one log partition, one for each feed.

    One task calls them, in the loop or in the thread of the steps.
    """

    def __init__(
        self,
        partition: int,
        opener_of: Callable[[FeedId], OpenRowWriter],
        limits: OutletLimits,
        clock: Callable[[], float],
        acknowledged: Callable[[], None],
    ) -> None:
        """``opener_of`` is called when the first rows of a feed come, while the partition has the feed."""
        self._partition = partition
        self._opener_of = opener_of
        self._limits = limits
        self._clock = clock
        self._acknowledged = acknowledged
        self._outlets: dict[FeedId, Outlet] = {}
        self._ended: set[FeedId] = set()
        self._last_look_at = math.inf

    # ---- rows

    def barriers(self, outputs: Mapping[FeedId, Sequence[OutputRecord]]) -> dict[FeedId, Barrier]:
        """Make the barriers that the batch of these rows has to wait for: one for each live feed."""
        found = ((self._outlet(feed_id), rows) for feed_id, rows in outputs.items() if rows)
        return {
            outlet.feed_id: outlet.barrier(len(rows))
            for outlet, rows in found
            if outlet.state is OutletState.LIVE
        }

    def send_rows(
        self, outputs: Mapping[FeedId, Sequence[OutputRecord]], barriers: Mapping[FeedId, Barrier]
    ) -> None:
        """Hand rows to their sinks, or queue them after others that wait (step 3)."""
        for feed_id, rows in outputs.items():
            if rows:
                self._outlet(feed_id).queue_rows(rows, barriers.get(feed_id))
        self.hand_over()

    def hand_over(self) -> None:
        """Give each sink the rows that it has room for."""
        for outlet in self._outlets.values():
            outlet.hand_over()

    @property
    def have_more(self) -> bool:
        """Whether rows wait for room in their sinks, or may have been given up."""
        return any(outlet.has_more for outlet in self._outlets.values())

    # ---- state

    @property
    def are_over_budget(self) -> bool:
        """Whether the partition should step nothing before rows of some feed are acknowledged."""
        return any(outlet.is_over_budget for outlet in self._outlets.values())

    def look(self) -> tuple[OutletChange, FeedId] | None:
        """Return the most urgent change that the processor has to be told of; ``None`` if there is none.

        To fail or to detach a feed comes first: batches wait for its rows, and so do the rows of other feeds
        in these batches. Forgets feeds that have ended, once nobody waits for their rows.
        """
        now = self._clock()
        self._sweep()
        is_last = now >= self._last_look_at
        looks = [
            (outlet.look(now, is_last=is_last, has_ended=feed_id in self._ended), feed_id)
            for feed_id, outlet in self._outlets.items()
        ]
        changes = [(change, feed_id) for change, feed_id in looks if change is not None]
        return min(changes, key=_order, default=None)

    def refusal(self, feed_id: FeedId) -> RowRefused:
        """Return why a row of the feed is refused. ``look`` must have returned ``REFUSE`` for the feed."""
        refusal = self._outlets[feed_id].refusal
        assert refusal is not None
        return refusal

    def let_go(self) -> None:
        """Note that the partition is being released: batches wait for rows ``drain_s`` at most."""
        self._last_look_at = self._clock() + self._limits.drain_s

    def become(self, change: OutletChange, feed_id: FeedId) -> None:
        """Change the state of the feed's outlet. The next step tells the processor of it."""
        outlet = self._outlets[feed_id]
        outlet.become(change, self._clock())
        log = _log.info if change in (OutletChange.ATTACH, OutletChange.RESUME) else _log.warning
        log(_TEXTS[change], partition=self._partition, feed_id=feed_id, **_counts(outlet.report()))
        if change is OutletChange.REFUSE:
            del self._outlets[feed_id]
            self._ended.discard(feed_id)

    def note(self, acks: Iterable[Ack]) -> None:
        """Note the answers of a step: a feed that was removed or has failed writes no more rows."""
        ended = {ack.feed_id for ack in acks if isinstance(ack, Removed | Failed)}
        self._ended |= ended & self._outlets.keys()

    def next_look_s(self) -> float | None:
        """Return in how many seconds to look or to hand over; ``None`` if not before an acknowledgement."""
        looks = (outlet.next_look_s(_QUEUE_FULL_S) for outlet in self._outlets.values())
        return min((look for look in looks if look is not None), default=None)

    def report(self) -> tuple[OutletReport, ...]:
        """Return the present facts for an operator, one report a feed."""
        return tuple(outlet.report() for _, outlet in sorted(self._outlets.items()))

    def close(self) -> None:
        """Throw away the rows that the sinks do not have."""
        for outlet in self._outlets.values():
            outlet.forget()

    # ---- inside

    def _outlet(self, feed_id: FeedId) -> Outlet:
        if feed_id in self._ended:  # the next epoch of a feed that was removed may be on another cluster
            self._sweep()
        self._ended.discard(feed_id)
        outlet = self._outlets.get(feed_id)
        if outlet is None:
            outlet = Outlet(feed_id, self._opener_of(feed_id), self._limits, self._acknowledged)
            self._outlets[feed_id] = outlet
        return outlet

    def _sweep(self) -> None:
        for feed_id in list(self._ended):
            outlet = self._outlets[feed_id]
            if outlet.state is not OutletState.LIVE or outlet.is_empty:
                outlet.forget()
                del self._outlets[feed_id]
                self._ended.discard(feed_id)


def _order(found: tuple[OutletChange, FeedId]) -> int:
    return _URGENT.index(found[0]) if found[0] in _URGENT else len(_URGENT)


def _counts(report: OutletReport) -> dict[str, int]:
    return {"waiting_bytes": report.waiting_bytes, "spool_bytes": report.spool_bytes}

"""Where the rows of one feed leave a log partition, and how far their sink follows.

An outlet has the rows between their step and their acknowledgement, in order: what the producer has, what
waits for room there, and of a *detached* feed what lies in a spool on disk behind that
(docs/catch-up.md#a-sink-that-does-not-follow).
"""

from __future__ import annotations

import asyncio
import enum
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

import structlog

from app.resume_pause import ResumePause
from app.sink import Barrier
from app.spool import Spool
from tidegate.changefeed.feed import FeedId
from tidegate.errors import SpoolLost
from tidegate.processor.batch import OutputRecord

#: What a detached feed gives to its producer at a time, once that has nothing of it any more.
_AT_ONCE_BYTES: Final = 1 << 20
_LOOKS: Final = 8  # within ``stall_s``
_OVER_BUDGET: Final = 4  # a part of ``stall_s``

_log = structlog.get_logger("tidegate.outlet")


class RowSink(Protocol):
    """Takes rows; see ``app.sink.Sink.send``."""

    def send(self, rows: Sequence[OutputRecord], barrier: Barrier, first: int = 0) -> int: ...


class OutletState(enum.Enum):
    """LIVE: batches wait for the feed's rows. SPOOLING: none does. STALLED: none comes out any more."""

    LIVE = "live"
    SPOOLING = "spooling"
    STALLED = "stalled"


class Change(enum.Enum):
    """Steps K2, K4, K5 and K6: what the partition processor is to be told of a feed."""

    DETACH = "detach"
    ATTACH = "attach"
    STALL = "stall"
    RESUME = "resume"


@dataclass(frozen=True, slots=True)
class OutletLimits:
    """How far a sink may fall behind, for each feed and log partition; see ``app.settings``.

    ``directory`` is where spools lie, ``stall_s`` are seconds; ``drain_s`` those from the moment on that the
    partition is let go of.
    """

    directory: Path
    memory_bytes: int
    spool_bytes: int
    stall_s: float
    drain_s: float

    @property
    def look_s(self) -> float:
        """How often to look at rows that wait."""
        return min(1.0, self.stall_s / _LOOKS)


@dataclass(slots=True, eq=False)
class _Parcel:
    """Rows of one batch, or some of a spool; those before ``first`` were handed to the producer."""

    rows: Sequence[OutputRecord]
    barrier: Barrier
    bytes: int
    first: int = 0

    @property
    def handed(self) -> bool:
        """Whether the producer has all of it."""
        return self.first == len(self.rows)


@dataclass(frozen=True, slots=True)
class OutletReport:
    """What an operator sees of a feed in a partition: its state, and what waits in memory and on disk."""

    feed_id: FeedId
    state: OutletState = OutletState.LIVE
    waiting_bytes: int = 0
    spool_bytes: int = 0


class Outlet:
    """The rows of feed ``feed_id``. Called by one task, in the loop or in the thread of the steps.

    ``acknowledged`` is called by the loop whenever a part of the rows is.
    """

    def __init__(
        self, feed_id: FeedId, sink: RowSink, limits: OutletLimits, acknowledged: Callable[[], None]
    ) -> None:
        self.feed_id = feed_id
        self.state = OutletState.LIVE
        self._sink = sink
        self._limits = limits
        self._acknowledged = acknowledged
        self._loop = asyncio.get_running_loop()
        self._parcels: deque[_Parcel] = deque()
        self._spool = Spool(limits.directory, limits.spool_bytes)
        self._pause = ResumePause(limits.stall_s)
        self._lost = False
        self._oldest: _Parcel | None = None
        self._looked_at = 0.0
        self._left = 0
        self._waited_s = 0.0
        self._silent_s = 0.0
        self._overdue_s = 0.0
        self._over_s = 0.0

    # ---- rows

    def barrier(self, rows: int) -> Barrier:
        """What counts so many rows; they must not be with a sink yet."""
        barrier = Barrier(rows, self._loop)
        barrier.acknowledged.add_done_callback(lambda _: self._acknowledged())
        return barrier

    def take(self, rows: Sequence[OutputRecord], barrier: Barrier | None) -> None:
        """Rows of a batch, behind all others; without a barrier no batch waits for them."""
        if barrier is not None:
            self._parcels.append(_Parcel(rows, barrier, _size(rows)))
        elif not self._lost and self.state is OutletState.SPOOLING:
            self._put_by(rows)

    @property
    def has_more(self) -> bool:
        """Whether there are rows that the producer does not have."""
        return bool(self._spool) or any(not parcel.handed for parcel in self._parcels)

    def hand_over(self) -> None:
        """Give the producer what it has room for, in order. Raises as ``Sink.send``."""
        while (parcel := self._next()) is not None:
            parcel.first = self._sink.send(parcel.rows, parcel.barrier, parcel.first)
            if not parcel.handed:
                return

    def forget(self) -> None:
        """Throw away all rows but those that the producer has."""
        self._spool.close()
        for parcel in self._parcels:
            parcel.barrier.forget(len(parcel.rows) - parcel.first)
            parcel.rows = parcel.rows[: parcel.first]
            parcel.bytes = _size(parcel.rows)

    # ---- state

    @property
    def is_empty(self) -> bool:
        """Whether every row that came is acknowledged, or was thrown away."""
        while self._parcels and self._parcels[0].barrier.acknowledged.done():
            self._parcels.popleft()
        return not self._parcels and not self._spool

    @property
    def is_over_budget(self) -> bool:
        """Whether its rows fill the memory that they may, and there should be no more."""
        return self.state is OutletState.LIVE and self._waiting_bytes > self._limits.memory_bytes

    def look(self, now: float, *, is_last: bool = False, has_ended: bool = False) -> Change | None:
        """What the feed's rows have come to, at ``now`` seconds of a monotonic clock.

        ``is_last``: batches cannot wait for them any longer. ``has_ended``: of a feed that was removed or has
        failed, for which they wait no longer than ``stall_s``.
        """
        parcels = len(self._parcels)
        is_empty = self.is_empty
        if len(self._parcels) < parcels:
            self._pause.acknowledged(now)
        match self.state:
            case OutletState.LIVE:
                self._measure(now)
                is_slow = self._is_slow(0.0 if has_ended else self._pause.patience_s - self._limits.stall_s)
                return Change.DETACH if is_slow or (is_last and not is_empty) else None
            case OutletState.SPOOLING if self._lost:
                return Change.STALL
            case OutletState.SPOOLING:
                return Change.ATTACH if is_empty else None
            case OutletState.STALLED:
                return Change.RESUME if is_empty and self._pause.is_over(now) else None

    def become(self, change: Change, now: float) -> None:
        """The processor is told of the change with the next step; ``now`` as in ``look``."""
        match change:
            case Change.DETACH:
                self.state = OutletState.SPOOLING
            case Change.STALL:
                self.state = OutletState.STALLED
                self._lost = False
                self.forget()
                self._pause.stalled(now)
            case Change.ATTACH | Change.RESUME:
                self.state = OutletState.LIVE
                self._pause.live(now)
                if change is Change.RESUME:
                    self._overdue_s = 0.0
        self._oldest = None

    def next_look_s(self, retry_s: float) -> float | None:
        """When to look again, or to hand over; ``None``: when ``acknowledged`` is called."""
        if self.state is OutletState.LIVE and self.has_more:
            return min(retry_s, self._limits.look_s)
        is_due = self.has_more or self._parcels or self.state is OutletState.STALLED
        return self._limits.look_s if is_due else None

    def report(self) -> OutletReport:
        """As it is now."""
        return OutletReport(self.feed_id, self.state, self._waiting_bytes, self._spool.bytes)

    # ---- inside

    @property
    def _waiting_bytes(self) -> int:
        parcels = list(self._parcels)  # an operator may ask in the midst of a step
        return sum(parcel.bytes for parcel in parcels)

    def _is_slow(self, forgiven_s: float) -> bool:
        """Step K1: the oldest batch has waited for ``stall_s``, and that is no longer forgiven; or no row of
        it was acknowledged for as long; or too many bytes wait, for a quarter of that.

        Forgiven is what batches waited beyond ``stall_s`` since the feed was resumed, all together, up to
        what `ResumePause` has patience for. Rows of one batch are never too many: they could not come in
        parts.
        """
        stall_s = self._limits.stall_s
        is_late = self._waited_s >= stall_s and self._overdue_s >= forgiven_s
        return is_late or self._silent_s >= stall_s or self._over_s >= stall_s / _OVER_BUDGET

    def _measure(self, now: float) -> None:
        """Add to what the oldest rows have waited; a time in which nobody looked does not count."""
        passed_s = min(max(0.0, now - self._looked_at), 2 * self._limits.look_s)
        oldest = self._parcels[0] if self._parcels else None
        if oldest is None or oldest is not self._oldest:
            self._oldest, self._waited_s, self._silent_s = oldest, 0.0, 0.0
        else:
            self._waited_s += passed_s
            self._silent_s = self._silent_s + passed_s if oldest.barrier.left == self._left else 0.0
        if (beyond_s := self._waited_s - self._limits.stall_s) > 0:
            self._overdue_s += min(passed_s, beyond_s)
            self._pause.overdue(now)
        else:
            self._pause.followed(now - self._waited_s)
        self._left = 0 if oldest is None else oldest.barrier.left
        if self.is_over_budget and len(self._parcels) > 1:
            self._over_s += passed_s
        else:
            self._over_s = 0.0
        self._looked_at = now

    def _next(self) -> _Parcel | None:
        """The first rows that the producer does not have, and may have now."""
        parcel = next((parcel for parcel in self._parcels if not parcel.handed), None)
        if self.state is OutletState.LIVE or (parcel is not None and parcel.first):
            return parcel
        if any(parcel.first and not parcel.barrier.acknowledged.done() for parcel in self._parcels):
            return None
        return parcel or self._refill()

    def _refill(self) -> _Parcel | None:
        if not self._spool:
            return None
        try:
            rows = self._spool.take(_AT_ONCE_BYTES)
        except SpoolLost as error:
            self._lose(error)
            return None
        parcel = _Parcel(rows, self.barrier(len(rows)), _size(rows))
        self._parcels.append(parcel)
        return parcel

    def _put_by(self, rows: Sequence[OutputRecord]) -> None:
        try:
            self._spool.append(rows)
        except SpoolLost as error:
            self._lose(error)

    def _lose(self, error: SpoolLost) -> None:
        _log.warning("rows that wait for their sink cannot be kept", feed_id=self.feed_id, cause=str(error))
        self._lost = True
        self.forget()


def _size(rows: Sequence[OutputRecord]) -> int:
    return sum(len(row.key) + len(row.value or b"") for row in rows)

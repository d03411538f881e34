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
from itertools import dropwhile
from pathlib import Path
from typing import Final, Protocol, TypeAlias

import structlog

from tidegate.changefeed.definition.feed import FeedId
from tidegate.errors import RowRefused, SpoolLost
from tidegate.processor.batch import OutputRecord
from tidegate.worker.output.resume_pause import ResumePause
from tidegate.worker.output.row_producer import Barrier
from tidegate.worker.output.sink_patience import SinkPatience
from tidegate.worker.output.spool import Spool

#: What a detached feed gives to its producer at a time, once that has nothing of it any more.
_AT_ONCE_BYTES: Final = 1 << 20
_LOOKS: Final = 8  # within ``stall_s``

_log = structlog.get_logger("tidegate.outlet")


class RowSink(Protocol):
    """Takes rows; see ``tidegate.worker.output.row_producer.Sink``."""

    @property
    def is_over(self) -> bool: ...

    @property
    def is_held(self) -> bool:
        """Whether there is another cluster at its address: nothing is to be done until that has changed."""

    def send(self, rows: Sequence[OutputRecord], barrier: Barrier, first: int = 0) -> int: ...


#: Opens the sink of one feed, and another one each time that it is called.
OpenSink: TypeAlias = Callable[[], RowSink]


class OutletState(enum.Enum):
    """LIVE: batches wait for the feed's rows. SPOOLING: none does. STALLED: none comes out any more."""

    LIVE = "live"
    SPOOLING = "spooling"
    STALLED = "stalled"


class OutletChange(enum.Enum):
    """Steps R2, K2, K4, K5 and K6: what the partition processor is to be told of a feed."""

    REFUSE = "refuse"
    DETACH = "detach"
    ATTACH = "attach"
    STALL = "stall"
    RESUME = "resume"


@dataclass(frozen=True, slots=True)
class OutletLimits:
    """How far a sink may fall behind, for each feed and log partition; see
    ``tidegate.worker.process.settings``.

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
        self,
        feed_id: FeedId,
        open_sink: OpenSink,
        limits: OutletLimits,
        acknowledged: Callable[[], None],
    ) -> None:
        """``open_sink`` is called again once the sink is over, when the feed may be removed already."""
        self.feed_id = feed_id
        self.state = OutletState.LIVE
        self._open_sink = open_sink
        self._sink = open_sink()
        self._limits = limits
        self._acknowledged = acknowledged
        self._loop = asyncio.get_running_loop()
        self._parcels: deque[_Parcel] = deque()
        self._spool = Spool(limits.directory, limits.spool_bytes)
        self._pause = ResumePause(limits.stall_s)
        self._patience = SinkPatience(limits.stall_s, limits.look_s, self._pause)
        self._lost = False

    # ---- rows

    def barrier(self, rows: int) -> Barrier:
        """What counts so many rows; they must not be with a sink yet."""
        barrier = Barrier(rows, self._loop)
        barrier.when_acknowledged(self._acknowledged)
        return barrier

    def take(self, rows: Sequence[OutputRecord], barrier: Barrier | None) -> None:
        """Rows of a batch, behind all others; without a barrier no batch waits for them."""
        if barrier is not None:
            self._parcels.append(_Parcel(rows, barrier, _size(rows)))
        elif not self._lost and self.state is OutletState.SPOOLING:
            self._put_by(rows)

    @property
    def has_more(self) -> bool:
        """Whether there are rows that the producer does not have, or that it has given up."""
        if self._sink.is_over and self._parcels:
            return True
        return bool(self._spool) or any(not parcel.handed for parcel in self._parcels)

    def hand_over(self) -> None:
        """Give the producer what it has room for, in order; nothing behind a row that is refused."""
        if self.refusal is not None:
            return
        if self._sink.is_over:
            self._begin_again()
        while (parcel := self._next()) is not None:
            parcel.first = self._sink.send(parcel.rows, parcel.barrier, parcel.first)
            if not parcel.handed:
                return

    @property
    def refusal(self) -> RowRefused | None:
        """Why a row is refused for good (step R1), if one is."""
        refusals = (parcel.barrier.refusal for parcel in self._parcels)
        return next((refusal for refusal in refusals if refusal is not None), None)

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
        return not self._spool and all(parcel.barrier.acknowledged.done() for parcel in self._parcels)

    @property
    def is_over_budget(self) -> bool:
        """Whether its rows fill the memory that they may, and there should be no more."""
        return self.state is OutletState.LIVE and self._waiting_bytes > self._limits.memory_bytes

    def look(self, now: float, *, is_last: bool = False, has_ended: bool = False) -> OutletChange | None:
        """What the feed's rows have come to, at ``now`` seconds of a monotonic clock.

        ``is_last``: batches cannot wait for them any longer. ``has_ended``: of a feed that was removed or has
        failed, for which they wait no longer than ``stall_s``.
        """
        if self.refusal is not None:
            return OutletChange.REFUSE
        if self._drop_acknowledged():
            self._pause.acknowledged(now)
        match self.state:
            case OutletState.LIVE:
                self._look_at_oldest(now, has_ended=has_ended)
                is_late = self._is_slow or self._is_held
                return OutletChange.DETACH if is_late or (is_last and not self.is_empty) else None
            case OutletState.SPOOLING if self._lost or self._is_held:
                return OutletChange.STALL
            case OutletState.STALLED if self._sink.is_held:
                return None
            case OutletState.SPOOLING:
                return OutletChange.ATTACH if self.is_empty else None
            case OutletState.STALLED:
                return OutletChange.RESUME if self.is_empty and self._pause.is_over(now) else None

    def become(self, change: OutletChange, now: float) -> None:
        """The processor is told of the change with the next step; ``now`` as in ``look``."""
        match change:
            case OutletChange.DETACH:
                self.state = OutletState.SPOOLING
            case OutletChange.REFUSE:
                self.forget()
            case OutletChange.STALL:
                self.state = OutletState.STALLED
                self._lost = False
                self.forget()
                self._pause.stalled(now)
            case OutletChange.ATTACH | OutletChange.RESUME:
                self.state = OutletState.LIVE
                self._pause.live(now)
        self._patience.begin_anew(forgiving=change is OutletChange.RESUME)

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

    def _drop_acknowledged(self) -> bool:
        """Let go of the first rows as far as they are acknowledged; whether some were."""
        parcels = len(self._parcels)
        while self._parcels and self._parcels[0].barrier.acknowledged.done():
            self._parcels.popleft()
        return len(self._parcels) < parcels

    def _begin_again(self) -> None:
        """Step R6: the sink is over, and has told of each of its rows what became of it. Give another one all
        rows from the first batch on that is not acknowledged, in their order, but what nobody waits for.

        What is acknowledged behind that batch goes along: an older version of a key must not stay its last
        record. No batch behind the first one is committed yet, and none will be before its copies are there.
        """
        self._sink = self._open_sink()
        self._drop_acknowledged()
        if self.state is OutletState.STALLED or self._lost:
            self.forget()
            self._parcels.clear()
        for parcel in dropwhile(lambda parcel: parcel.barrier.counts, self._parcels):
            if parcel.rows:  # what was thrown away stays so
                parcel.first = 0
                parcel.barrier.begin_again(len(parcel.rows))

    def _look_at_oldest(self, now: float, *, has_ended: bool) -> None:
        """Count what it waits. Rows of one batch are never too many: they could not come in parts."""
        oldest = self._parcels[0].barrier if self._parcels else None
        is_too_much = self.is_over_budget and len(self._parcels) > 1
        self._patience.look(now, oldest, is_too_much=is_too_much, has_ended=has_ended)

    @property
    def _is_slow(self) -> bool:
        """Step K1, unless batches cannot wait in any case."""
        return self._patience.is_over

    @property
    def _is_held(self) -> bool:
        """Whether rows wait for a sink whose address means another cluster."""
        return not self.is_empty and self._sink.is_held

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

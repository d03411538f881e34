"""The outlet of one feed: the queue of its rows in front of the row producer, and its detachment.

An outlet has the rows between their step and their acknowledgement, in order. First come the rows that the
producer has, then those that wait for room there. After them come the rows that a *detached* feed has in a
spool on disk (docs/protocols/slow-sinks.md).
"""

from __future__ import annotations

import asyncio
import enum
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import dropwhile
from pathlib import Path
from typing import Final

import structlog

from tidegate.changefeed.definition.feed import FeedId
from tidegate.errors import RowRefused, SpoolLost
from tidegate.processor.batch import OutputRecord
from tidegate.processor.written_records import rows_size
from tidegate.worker.output.barrier import Barrier
from tidegate.worker.output.contained_writer import ContainedWriter
from tidegate.worker.output.resume_pause import ResumePause
from tidegate.worker.output.row_writer import OpenRowWriter
from tidegate.worker.output.sink_patience import SinkPatience
from tidegate.worker.output.spool import Spool

#: How many bytes of its spool a detached feed gives to its producer at a time. The next ones follow when the
#: producer has no row of the feed any more.
_AT_ONCE_BYTES: Final = 1 << 20
_LOOKS: Final = 8  # how often waiting rows are looked at within ``stall_s``, at least

_log = structlog.get_logger("tidegate.outlet")


class OutletState(enum.Enum):
    """The state of a feed's rows. The values are those of the metric ``tidegate_delivery_state``.

    LIVE: batches wait until they are acknowledged. SPOOLING: the feed is detached and writes rows; no batch
    waits for them. STALLED: the feed is detached and writes no rows; it waits for a scan.
    """

    LIVE = "live"
    SPOOLING = "spooling"
    STALLED = "stalled"


class OutletChange(enum.Enum):
    """A step about a feed that the processor has to take: R2, K2, K4, K5 and K6, in this order.

    R2 is a step of docs/protocols/refused-rows.md, and K2 to K6 are steps of docs/protocols/slow-sinks.md.
    """

    REFUSE = "refuse"
    DETACH = "detach"
    ATTACH = "attach"
    STALL = "stall"
    RESUME = "resume"


@dataclass(frozen=True, slots=True)
class OutletLimits:
    """The bounds of an outlet, for one feed in one log partition (``tidegate.worker.process.settings``).

    ``directory`` has the spools. ``stall_s`` is how many seconds a batch waits for the rows of a feed before
    the feed is detached. ``drain_s`` is how many seconds it waits from the moment that the release of
    the partition begins.
    """

    directory: Path
    memory_bytes: int
    spool_bytes: int
    stall_s: float
    drain_s: float

    @property
    def look_s(self) -> float:
        """The number of seconds between two looks at waiting rows."""
        return min(1.0, self.stall_s / _LOOKS)


@dataclass(slots=True, eq=False)
class _Parcel:
    """The rows of one batch, or some rows of the spool. The producer has the rows before index ``first``."""

    rows: Sequence[OutputRecord]
    barrier: Barrier
    bytes: int
    first: int = 0

    @property
    def handed(self) -> bool:
        """Whether all of its rows were handed to the producer."""
        return self.first == len(self.rows)


@dataclass(frozen=True, slots=True)
class OutletReport:
    """The state of an outlet as an operator sees it, and its bytes in memory and on disk."""

    feed_id: FeedId
    state: OutletState = OutletState.LIVE
    waiting_bytes: int = 0
    spool_bytes: int = 0


class Outlet:
    """One feed's rows on their way out of one log partition.

    One task calls it, in the loop or in the thread of the steps. The loop calls ``acknowledged`` whenever all
    rows of a batch, or of a part of the spool, are acknowledged.
    """

    def __init__(
        self,
        feed_id: FeedId,
        open_writer: OpenRowWriter,
        limits: OutletLimits,
        acknowledged: Callable[[], None],
    ) -> None:
        """``open_writer`` is called again whenever the writer is over, also once the feed is removed."""
        self.feed_id = feed_id
        self.state = OutletState.LIVE
        self._open_writer = partial(ContainedWriter, feed_id, open_writer)
        self._writer = self._open_writer()
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
        """Make a barrier for a number of rows, which no sink may have yet."""
        barrier = Barrier(rows, self._loop)
        barrier.when_acknowledged(self._acknowledged)
        return barrier

    def queue_rows(self, rows: Sequence[OutputRecord], barrier: Barrier | None) -> None:
        """Queue the rows of a batch, after all others. Without a barrier no batch waits for them.

        Rows without a barrier go to the spool while the feed is spooling. In any other state they are thrown
        away.
        """
        if barrier is not None:
            self._parcels.append(_Parcel(rows, barrier, rows_size(rows)))
        elif not self._lost and self.state is OutletState.SPOOLING:
            self._put_by(rows)

    @property
    def has_more(self) -> bool:
        """Whether there are rows that the producer does not have, or that it may have given up."""
        if self._writer.is_over and self._parcels:
            return True
        return bool(self._spool) or any(not parcel.handed for parcel in self._parcels)

    def hand_over(self) -> None:
        """Give the producer the rows that it has room for, in order. No row follows one that is refused."""
        if self.refusal is not None:
            return
        if self._writer.is_over:
            self._begin_again()
        while (parcel := self._next()) is not None:
            parcel.first = self._writer.send(parcel.rows, parcel.barrier, parcel.first)
            if not parcel.handed:
                return

    @property
    def refusal(self) -> RowRefused | None:
        """The reason why the sink will never take a row (step R1); ``None`` if there is no such row."""
        if self._writer.refusal is not None:
            return self._writer.refusal
        refusals = (parcel.barrier.refusal for parcel in self._parcels)
        return next((refusal for refusal in refusals if refusal is not None), None)

    def forget(self) -> None:
        """Throw away all rows that the producer does not have. They count as acknowledged."""
        self._spool.close()
        for parcel in self._parcels:
            parcel.barrier.forget(len(parcel.rows) - parcel.first)
            parcel.rows = parcel.rows[: parcel.first]
            parcel.bytes = rows_size(parcel.rows)

    # ---- state

    @property
    def is_empty(self) -> bool:
        """Whether every row that came is acknowledged, or was thrown away."""
        return not self._spool and all(parcel.barrier.acknowledged.done() for parcel in self._parcels)

    @property
    def is_over_budget(self) -> bool:
        """Whether the rows of a live feed take more memory than they may, so that no more should be added."""
        return self.state is OutletState.LIVE and self._waiting_bytes > self._limits.memory_bytes

    def look(self, now: float, *, is_last: bool = False, has_ended: bool = False) -> OutletChange | None:
        """Return the change that the partition processor has to be told of; ``None`` if there is none.

        ``now`` is in seconds of a monotonic clock. ``is_last`` says that batches cannot wait for the rows any
        longer. ``has_ended`` says that the feed was removed or has failed: then batches wait for ``stall_s``
        at most.
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
            case OutletState.STALLED if self._writer.is_held:
                return None
            case OutletState.SPOOLING:
                return OutletChange.ATTACH if self.is_empty else None
            case OutletState.STALLED:
                return OutletChange.RESUME if self.is_empty and self._pause.is_over(now) else None

    def become(self, change: OutletChange, now: float) -> None:
        """Change the state. The next step tells the processor of it. ``now`` is as in ``look``."""
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
        """Return in how many seconds to look or to hand over again.

        ``None`` says that there is nothing to do before ``acknowledged`` is called. ``retry_s`` is how long
        to wait before a producer without room is given rows again.
        """
        if self.state is OutletState.LIVE and self.has_more:
            return min(retry_s, self._limits.look_s)
        is_due = self.has_more or self._parcels or self.state is OutletState.STALLED
        return self._limits.look_s if is_due else None

    def report(self) -> OutletReport:
        """Return the present facts for an operator."""
        return OutletReport(self.feed_id, self.state, self._waiting_bytes, self._spool.bytes)

    # ---- inside

    @property
    def _waiting_bytes(self) -> int:
        parcels = list(self._parcels)  # a copy: a report may be made while another thread takes a step
        return sum(parcel.bytes for parcel in parcels)

    def _drop_acknowledged(self) -> bool:
        """Drop the parcels before the first that is not acknowledged. Returns whether some were dropped."""
        parcels = len(self._parcels)
        while self._parcels and self._parcels[0].barrier.acknowledged.done():
            self._parcels.popleft()
        return len(self._parcels) < parcels

    def _begin_again(self) -> None:
        """Open another writer, and give it again all rows that may be missing: step R6.

        The old writer is over: each of its rows is acknowledged, refused or given up. The new one gets all
        rows in order from the first unacknowledged batch on. Acknowledged rows of later batches are among
        them: if they were not written again, an older version of a key could stay the key's last record.
        Those later batches are not committed yet, and wait for their copies. If the feed waits for a scan, or
        rows of its spool are lost, its rows are dropped instead: a scan brings them.
        """
        self._writer = self._open_writer()
        self._drop_acknowledged()
        if self.state is OutletState.STALLED or self._lost:
            self.forget()
            self._parcels.clear()
        for parcel in dropwhile(lambda parcel: parcel.barrier.counts, self._parcels):
            if parcel.rows:  # rows that were thrown away are not written again
                parcel.first = 0
                parcel.barrier.begin_again(len(parcel.rows))

    def _look_at_oldest(self, now: float, *, has_ended: bool) -> None:
        """Count how long the oldest batch waits. One batch alone is never too much: it cannot be split."""
        oldest = self._parcels[0].barrier if self._parcels else None
        is_too_much = self.is_over_budget and len(self._parcels) > 1
        self._patience.look(now, oldest, is_too_much=is_too_much, has_ended=has_ended)

    @property
    def _is_slow(self) -> bool:
        """Whether batches have waited for the feed's rows for too long (step K1)."""
        return self._patience.is_over

    @property
    def _is_held(self) -> bool:
        """Whether rows wait for a sink that is held (``RowWriter.is_held``)."""
        return not self.is_empty and self._writer.is_held

    def _next(self) -> _Parcel | None:
        """Return the first rows that may be given to the producer now; ``None`` if there are none.

        A feed that is not live gives rows only when the producer has none of its rows any more.
        """
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
        except Exception as error:
            self._lose(error)
            return None
        parcel = _Parcel(rows, self.barrier(len(rows)), rows_size(rows))
        self._parcels.append(parcel)
        return parcel

    def _put_by(self, rows: Sequence[OutputRecord]) -> None:
        try:
            self._spool.append(rows)
        except Exception as error:
            self._lose(error)

    def _lose(self, error: Exception) -> None:
        """Give up the spool. It is a cache, so even an exception that nobody foresaw does no harm (U10)."""
        _log.warning(
            "rows that wait for their sink are thrown away, and a scan brings them again",
            feed_id=self.feed_id,
            cause=str(error),
            exc_info=None if isinstance(error, SpoolLost) else error,
        )
        self._lost = True
        self.forget()

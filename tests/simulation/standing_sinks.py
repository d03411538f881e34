"""Sinks that stand still or refuse a row, and the results that wait for them: steps K1 to K6 of
docs/protocols/slow-sinks.md, R1 to R3 of docs/protocols/refused-rows.md.

What ``app`` does with tasks and clocks is drawn here: when rows are acknowledged, when results whose rows are
all acknowledged are committed, when a feed is detached, when its spool is lost, when a sink takes rows again
or refuses one.
"""

from __future__ import annotations

import enum
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Final

from tests.simulation.feed_judge import BrokenPromise
from tidegate.changefeed.definition.feed import FeedId
from tidegate.changefeed.lifecycle.control import Failed, Removed
from tidegate.errors import RowRefused
from tidegate.processor.batch import OutputRecord, StepResult
from tidegate.processor.processor import PartitionProcessor

_ROOM_MAX: Final = 10
_WAKE: Final = 0.1  # all of these are probabilities, per look
_DETACH: Final = 0.25
_LOSE_SPOOL: Final = 0.1
_HALF: Final = 0.5
#: The reason of the failure of a feed with a refused row.
REFUSED: Final = "a row is above a limit"


class Mode(enum.Enum):
    """The treatment of a feed's rows in the partition; see ``tidegate.worker.output.outlet.OutletState``."""

    LIVE = enum.auto()
    SPOOLING = enum.auto()
    STALLED = enum.auto()


@dataclass(slots=True, eq=False)
class Flight:
    """A result that is not committed; ``waits`` counts, for each feed, the rows that have to be acknowledged
    before.

    It is committed only together with all up to the one that has the number ``until``.
    """

    number: int
    result: StepResult
    waits: dict[FeedId, int]
    until: int = 0


@dataclass(slots=True)
class Sink:
    """A sink of a feed; ``rows`` has its rows that are not acknowledged, in order, each with its flight."""

    standing: bool = False
    mode: Mode = Mode.LIVE
    lost: bool = False
    rows: list[tuple[OutputRecord, Flight]] = field(default_factory=list)


class Window:
    """The results of a partition that are not committed, and the sinks that they wait for.

    ``written`` is called with rows when they are acknowledged, ``committed`` with results in order.
    """

    def __init__(
        self,
        processor: PartitionProcessor,
        rng: Random,
        written: Callable[[FeedId, Sequence[OutputRecord]], None],
        committed: Callable[[StepResult], None],
        standing: Iterable[FeedId] = (),
        refuse: float = 0.0,
    ) -> None:
        """``refuse`` is the probability, per look, that one of the rows that a sink has is refused."""
        self._processor = processor
        self._refuse = refuse
        self._rng = rng
        self._written = written
        self._committed = committed
        self._flights: list[Flight] = []
        self._next = 1
        self._sinks: dict[FeedId, Sink] = defaultdict(Sink, {feed_id: Sink(True) for feed_id in standing})
        self._ended: set[FeedId] = set()

    @property
    def has_room(self) -> bool:
        """Whether a result of an ordinary step, not of the steps K, may be added."""
        return len(self._flights) < _ROOM_MAX

    @property
    def standing(self) -> list[FeedId]:
        """The feeds whose sinks stand still."""
        return [feed_id for feed_id, sink in self._sinks.items() if sink.standing]

    def stand_still(self, feed_id: FeedId) -> None:
        """Let the sink acknowledge rows by chance only from now on."""
        self._sinks[feed_id].standing = True

    def wake_all(self) -> None:
        """Let every sink acknowledge the rows that it has, and later rows."""
        for sink in self._sinks.values():
            sink.standing = False

    def add(self, result: StepResult) -> Flight:
        """Add the result of a step; its rows go to the sinks."""
        outputs = {feed_id: rows for feed_id, rows in result.outputs.items() if rows}
        if ended := self._ended & outputs.keys():
            raise BrokenPromise(f"rows of {ended} come out after its end")
        live = [feed_id for feed_id in outputs if self._sinks[feed_id].mode is Mode.LIVE]
        flight = Flight(self._next, result, {feed_id: len(outputs[feed_id]) for feed_id in live})
        self._next += 1
        self._flights.append(flight)
        for feed_id, rows in outputs.items():
            sink = self._sinks[feed_id]
            if sink.mode is Mode.LIVE or (sink.mode is Mode.SPOOLING and not sink.lost):
                sink.rows += [(row, flight) for row in rows]
        self._ended |= {ack.feed_id for ack in result.acks if isinstance(ack, Removed | Failed)}
        return flight

    def acknowledge(self) -> None:
        """Let the sinks that do not stand still acknowledge everything."""
        for feed_id, sink in self._sinks.items():
            if not sink.standing:
                self._acknowledge(feed_id, len(sink.rows))

    def commit(self, *, tell: bool = True) -> None:
        """Commit the results whose rows are all acknowledged. Without ``tell`` the processor does not hear of
        it yet."""
        ready, self._flights = self._flights[: self._ready()], self._flights[self._ready() :]
        for flight in ready:
            self._committed(flight.result)
        if ready and tell:
            self._processor.committed(max(flight.result.serial for flight in ready))

    def look(self) -> None:
        """Look how far the sinks have come, and take the steps K that are due."""
        for feed_id, sink in list(self._sinks.items()):
            if sink.standing and self._chance(_WAKE):
                sink.standing = False
            if not sink.standing or self._chance(_HALF):
                self._acknowledge_some(feed_id)
            if self._refuses(feed_id, sink):
                self._fail(feed_id)
            elif feed_id in self._ended and (sink.mode is not Mode.LIVE or not sink.rows):
                del self._sinks[feed_id]
            else:
                self._step(feed_id, sink)
        if self._chance(_HALF):
            self.commit()

    def settle(self) -> None:
        """Do all that can be done at once."""
        self.acknowledge()
        for feed_id, sink in list(self._sinks.items()):
            if sink.mode is Mode.SPOOLING and sink.lost:
                self._stall(feed_id, sink)
            if sink.mode is not Mode.LIVE and not sink.rows:
                self._go_live(feed_id, sink)
        self.acknowledge()
        self.commit()

    def die(self) -> list[tuple[FeedId, list[OutputRecord]]]:
        """End without a further commit. Return rows that may still be written after that, of each output
        partition, in order."""
        left = []
        for feed_id, sink in self._sinks.items():
            for rows in _by_place(row for row, _ in sink.rows).values():
                written = self._rng.randint(0, len(rows))
                self._written(feed_id, rows[:written])
                left.append((feed_id, rows[written:]))
        return left

    # ---- sinks

    def _chance(self, probability: float) -> bool:
        return self._rng.random() < probability

    def _acknowledge(self, feed_id: FeedId, count: int) -> None:
        sink = self._sinks[feed_id]
        taken, sink.rows = sink.rows[:count], sink.rows[count:]
        for row, flight in taken:
            self._written(feed_id, [row])
            if feed_id in flight.waits:
                flight.waits[feed_id] -= 1

    def _acknowledge_some(self, feed_id: FeedId) -> None:
        """Acknowledge the first rows of each output partition."""
        sink = self._sinks[feed_id]
        counts = {
            place: self._rng.randint(0, len(rows))
            for place, rows in _by_place(row for row, _ in sink.rows).items()
        }
        chosen: list[tuple[OutputRecord, Flight]] = []
        left: list[tuple[OutputRecord, Flight]] = []
        for item in sink.rows:
            place = _place(item[0])
            (chosen if counts[place] else left).append(item)
            counts[place] = max(0, counts[place] - 1)
        sink.rows = chosen + left
        self._acknowledge(feed_id, len(chosen))

    # ---- the steps R and K

    def _refuses(self, feed_id: FeedId, sink: Sink) -> bool:
        """Whether the sink refuses a row now. Nothing is drawn in runs in which no sink ever does."""
        may = self._refuse > 0 and bool(sink.rows) and feed_id not in self._ended
        return may and self._chance(self._refuse)

    def _fail(self, feed_id: FeedId) -> None:
        """Take the steps R1 to R3: a row is refused, and the sink gets nothing after that."""
        if self._chance(_HALF):
            self.commit(tell=False)
        result = self._processor.fail_delivery(
            feed_id, RowRefused(REFUSED), [flight.result for flight in self._flights]
        )
        self._release(feed_id)
        del self._sinks[feed_id]
        self.add(result)

    def _release(self, feed_id: FeedId) -> None:
        """Let no flight wait for the feed any more. Flights whose rows are not acknowledged are committed
        together with the next one."""
        for flight in self._flights:
            if flight.waits.pop(feed_id, 0):
                flight.until = self._next

    def _step(self, feed_id: FeedId, sink: Sink) -> None:
        match sink.mode:
            case Mode.LIVE if sink.rows and self._chance(_DETACH):
                self._detach(feed_id, sink)
            case Mode.SPOOLING if sink.lost:
                if self._chance(_HALF):
                    self._stall(feed_id, sink)
            case Mode.SPOOLING if sink.rows and self._chance(_LOSE_SPOOL):
                sink.lost = True
                self._forget(sink)
            case Mode.SPOOLING | Mode.STALLED if not sink.rows and not sink.standing:
                if self._chance(_HALF):
                    self._go_live(feed_id, sink)

    def _detach(self, feed_id: FeedId, sink: Sink) -> None:
        """Take step K2. A result that is being committed at this moment, of which the processor has not
        heard, is not changed."""
        if self._chance(_HALF):
            self.commit(tell=False)
        sink.mode = Mode.SPOOLING
        result = self._processor.detach(feed_id, [flight.result for flight in self._flights])
        self._release(feed_id)
        self.add(result)
        if not self._processor.is_spooling(feed_id):
            sink.mode = Mode.STALLED
            self._forget(sink)

    def _stall(self, feed_id: FeedId, sink: Sink) -> None:
        sink.mode, sink.lost = Mode.STALLED, False
        self.add(self._processor.stall(feed_id))

    def _go_live(self, feed_id: FeedId, sink: Sink) -> None:
        """Take step K4 or K6."""
        attaches = sink.mode is Mode.SPOOLING and self._processor.is_spooling(feed_id)
        sink.mode = Mode.LIVE
        self.add(self._processor.attach(feed_id) if attaches else self._processor.resume(feed_id))

    def _forget(self, sink: Sink) -> None:
        """Throw away the spool: the producer has the first rows, and no others."""
        del sink.rows[self._rng.randint(0, len(sink.rows)) :]

    # ---- commits

    def _ready(self) -> int:
        """Return the number of results that may be committed: their rows are acknowledged, and so are those
        of the results with which they have to be committed."""
        ready = needed = 0
        for count, flight in enumerate(self._flights, 1):
            if any(flight.waits.values()):
                break
            needed = max(needed, flight.until)
            if flight.number >= needed:
                ready = count
        return ready


def _place(row: OutputRecord) -> tuple[str, int]:
    return row.topic, row.partition


def _by_place(rows: Iterable[OutputRecord]) -> Mapping[tuple[str, int], list[OutputRecord]]:
    places: dict[tuple[str, int], list[OutputRecord]] = defaultdict(list)
    for row in rows:
        places[_place(row)].append(row)
    return places

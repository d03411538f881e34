"""The way from ranges to the log: each range ships its own records, and some are later than others."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Final, NamedTuple

from sim.clock import Present
from sim.log.sink import LogSink, WrittenRecord
from sim.schedule import Action
from tidegate.hlc import NANOS_PER_MS
from tidegate.raftlog.encode import encode_key
from tidegate.raftlog.entry import BROADCAST

_BROADCAST_KEY: Final = encode_key(BROADCAST)
#: A range's delay changes about once in so many records.
_STEADY_FOR: Final = 20


class _Shipment(NamedTuple):
    due_ns: int
    record: WrittenRecord


class _Lane:
    """The records that a range has in flight, and its delay."""

    __slots__ = ("delay_ns", "shipments")

    def __init__(self) -> None:
        self.delay_ns: int | None = None
        self.shipments: deque[_Shipment] = deque()


class DelayedSink:
    """Delays the records of each range by up to ``longest_ms``.

    The records of one range keep their order. Records of different ranges may change places. Descriptors are
    not delayed, since they have to stand before the rows that they govern.
    """

    def __init__(
        self,
        sink: LogSink,
        present: Present,
        after: Callable[[int, Action], None],
        rng: Random,
        longest_ms: int,
    ) -> None:
        self._sink = sink
        self._present = present
        self._after = after
        self._rng = rng
        self._longest_ns = longest_ms * NANOS_PER_MS
        self._lanes: dict[bytes, _Lane] = {}

    def append(self, partition: int, key: bytes, value: bytes, record_time_ms: int) -> None:
        """See ``LogSink``."""
        record = WrittenRecord(partition, key, value, record_time_ms)
        if key == _BROADCAST_KEY:
            self._sink.append(*record)
            return
        lane = self._lanes.setdefault(key, _Lane())
        due_ns = self._present.ns + self._delay_ns(lane)
        if lane.shipments:
            due_ns = max(due_ns, lane.shipments[-1].due_ns)
        lane.shipments.append(_Shipment(due_ns, record))
        self._after(due_ns - self._present.ns, partial(self._deliver, lane))

    def flush(self) -> None:
        """See ``LogSink``. Records that are still in flight do not become durable."""
        self._sink.flush()

    def deliver_all(self) -> None:
        """Append all records that are in flight."""
        for lane in self._lanes.values():
            while lane.shipments:
                self._sink.append(*lane.shipments.popleft().record)

    def _delay_ns(self, lane: _Lane) -> int:
        if lane.delay_ns is None or not self._rng.randrange(_STEADY_FOR):
            lane.delay_ns = int(self._rng.random() ** 2 * self._longest_ns)
        return lane.delay_ns

    def _deliver(self, lane: _Lane) -> None:
        while lane.shipments and lane.shipments[0].due_ns <= self._present.ns:
            self._sink.append(*lane.shipments.popleft().record)

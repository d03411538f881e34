"""The range store at the other end of the log: ``sim`` in the run's virtual time."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Final

from sim.history import History
from sim.options import StoreOptions
from sim.plan import Workload
from sim.simulation import Simulation
from tests.simulation.kafka import Broker, SentRecord
from tests.simulation.scheduler import Scheduler
from tidegate.errors import MalformedEntry
from tidegate.raftlog.request import AdminRequest, Push, RangeRequest, Scan, decode_request

_TICK_S: Final = 0.03
#: In the end. Many ranges with a heartbeat of 100 ms write about as many records as a worker steps that takes
#: them one by one, and whatever is scanned for stands behind all that it has left undone.
_CALM_HEARTBEAT_MS: Final = 1_000


class _LogTopic:
    """See ``sim.sink.LogSink``. A batch of records that a workload writes at once arrives at once."""

    def __init__(self, broker: Broker, topic: str) -> None:
        self._broker = broker
        self._topic = topic

    def append(self, partition: int, key: bytes, value: bytes, record_time_ms: int) -> None:
        place = self._broker.partition(self._topic, partition)
        self._broker.append(place, [SentRecord(key, value, record_time_ms)])

    def flush(self) -> None:
        """What is appended is durable."""


class Source:
    """A store that never fails; requests to it are lost, answered late or twice by the shares given."""

    def __init__(
        self,
        scheduler: Scheduler,
        broker: Broker,
        prefix: str,
        workload: Workload,
        options: StoreOptions,
        seed: int,
        base_ns: int,
        *,
        lost: float,
        late: float,
    ) -> None:
        self.history = History()
        log = f"{prefix}raftlog"
        self._requests = f"{prefix}requests"
        for topic in (log, self._requests):
            broker.create(topic, options.partitions, {"cleanup.policy": "delete"})
        self.simulation = Simulation(
            workload, _LogTopic(broker, log), self.history, options, seed=seed, base_ns=base_ns
        )
        self._base_ns = base_ns
        self._scheduler = scheduler
        self._broker = broker
        self._rng = Random(f"{seed}:source")
        self._read = [0] * options.partitions
        self._lost, self._late = lost, late
        self._calm = False
        #: While it is set, no transaction starts.
        self.waits = False
        self.pushes = self.scans = 0
        self._tick()

    def calm_down(self) -> None:
        """From now on every request is answered soon, and nothing is begun but heartbeats."""
        self._calm = True
        options = self.simulation.options
        heartbeat_ms = max(options.heartbeat_ms, _CALM_HEARTBEAT_MS)
        self.simulation.options = replace(options, heartbeat_ms=heartbeat_ms)
        self.simulation.stop()

    def _tick(self) -> None:
        now_ns = self._base_ns + int(self._scheduler.now * 1e9)
        if self.waits:
            self.simulation.postpone(now_ns + 10**9)
        self.simulation.advance_to(now_ns)
        for number in range(len(self._read)):
            place = self._broker.partition(self._requests, number)
            records, self._read[number] = place.read(self._read[number], 1_000)
            for record in records:
                self._take(record.value)
        self._scheduler.after(_TICK_S * self._rng.random() * 2, self._tick)

    def _take(self, value: bytes | None) -> None:
        try:
            request = decode_request(value or b"")
        except MalformedEntry:
            return
        if request is None:
            return
        drawn = self._rng.random()
        if not self._calm and drawn < self._lost:
            return
        late = not self._calm and drawn < self._lost + self._late
        delay = self._rng.random() * (10.0 if late else 0.05)
        self._scheduler.after(delay, lambda: self._answer(request))
        if late:
            self._scheduler.after(delay + self._rng.random(), lambda: self._answer(request))

    def _answer(self, request: RangeRequest | AdminRequest) -> None:
        if isinstance(request, Push):
            self.pushes += self.simulation.push(request)
        elif isinstance(request, Scan):
            self.scans += self.simulation.scan(request)

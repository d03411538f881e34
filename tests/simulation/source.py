"""The range store at the other end of the log: ``sim`` in the run's virtual time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Final

from sim.log.history import History, Mutated
from sim.options import StoreOptions
from sim.plan import Workload
from sim.simulation import Simulation
from tests.driven_sim import mutate_somewhere
from tests.logs import Record
from tests.simulation.kafka import Broker, SentRecord
from tests.simulation.odd_plan import PLAIN, OddLog, OddPlan
from tests.simulation.scheduler import Scheduler
from tidegate.errors import MalformedEntry
from tidegate.raftlog.request import AdminRequest, Push, RangeRequest, Scan, decode_request

_TICK_S: Final = 0.03
#: The interval of heartbeats at the end of a run. With a heartbeat every 100 ms, many ranges write about as
#: many records as a worker can step one by one, and the answers to scans stand after all records that the
#: worker has not read yet.
_CALM_HEARTBEAT_MS: Final = 1_000
#: How much faster the source's clock runs at the end of a run whose log was odd.
_ODD_SPEED: Final = 5


class _LogTopic:
    """See ``sim.log.sink.LogSink``. Records that a workload writes as one batch arrive together."""

    def __init__(self, broker: Broker, topic: str, odd: OddLog) -> None:
        self._broker = broker
        self._topic = topic
        self._odd = odd

    def append(self, partition: int, key: bytes, value: bytes, record_time_ms: int) -> None:
        place = self._broker.partition(self._topic, partition)
        for arriving in self._odd.arriving(partition, Record(place.end, key, value, record_time_ms)):
            sent = SentRecord(arriving.key, arriving.value, arriving.timestamp)
            self._broker.append(place, [sent])

    def flush(self) -> None:
        """Do nothing: what is appended is durable."""


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
        odd: OddPlan = PLAIN,
    ) -> None:
        self.history = History()
        self._odd = OddLog(odd, options.partitions, seed)
        log = f"{prefix}raftlog"
        self._requests = f"{prefix}requests"
        for topic in (log, self._requests):
            broker.create(topic, options.partitions, {"cleanup.policy": "delete"})
        self.simulation = Simulation(
            workload, _LogTopic(broker, log, self._odd), self.history, options, seed=seed, base_ns=base_ns
        )
        self._odd_plan = odd
        self._speed = 1
        self._base_ns = base_ns
        self._scheduler = scheduler
        self._broker = broker
        self._rng = Random(f"{seed}:source")
        self._mutating = Random(f"{seed}:mutations")
        self._read = [0] * options.partitions
        self._lost, self._late = lost, late
        self._calm = False
        #: While it is set, no transaction starts.
        self.waits = False
        self.pushes = self.scans = 0
        self._tick()

    def calm_down(self) -> None:
        """Answer every request soon from now on, and begin nothing but heartbeats."""
        self._calm = True
        options = self.simulation.options
        if not self._odd.calm:  # waits for what was lost are measured in the log's time
            self._odd.calm, self._speed = True, _ODD_SPEED
            self._base_ns -= (_ODD_SPEED - 1) * self._elapsed_ns
        heartbeat_ms = max(options.heartbeat_ms, _CALM_HEARTBEAT_MS) * self._speed
        self.simulation.options = replace(options, heartbeat_ms=heartbeat_ms)
        self.simulation.stop()

    @property
    def now_ns(self) -> int:
        """The source's present."""
        return self._base_ns + self._speed * self._elapsed_ns

    @property
    def _elapsed_ns(self) -> int:
        return int(self._scheduler.now * 1e9)

    def sleep(self) -> None:
        """Write nothing for longer than anything is waited for. Only the source's clock moves on by that
        time."""
        if not self._calm:
            sleep_ns = int(self._odd_plan.pause_s * 1e9)
            self._advance()
            self._base_ns += sleep_ns
            self.simulation.sleep(sleep_ns)

    def mutate(self) -> None:
        """Change the past of a key outside the op log."""
        if not self._calm:
            self._advance()
            mutate_somewhere(self.simulation.store, self._mutating)

    @property
    def mutations(self) -> Sequence[Mutated]:
        """The changes outside the op log so far."""
        return self.simulation.store.mutations

    def _tick(self) -> None:
        self._advance()
        for number in range(len(self._read)):
            place = self._broker.partition(self._requests, number)
            records, self._read[number] = place.read(self._read[number], 1_000)
            for record in records:
                self._read_request(record.value)
        self._scheduler.after(_TICK_S * self._rng.random() * 2, self._tick)

    def _advance(self) -> None:
        if self.waits:
            self.simulation.postpone(self.now_ns + 10**9)
        self.simulation.advance_to(self.now_ns)

    def _read_request(self, value: bytes | None) -> None:
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

"""Clients of the cluster in memory that behave as librdkafka's do, errors included, and their network.

Everything that a client does by itself belongs to its process: it stops while the process is paused, and is
over when the process dies. What was sent before arrives all the same.
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, Final

from confluent_kafka import OFFSET_INVALID, KafkaError, KafkaException

from tests.simulation.kafka import (
    Broker,
    Entry,
    Fenced,
    Partition,
    SentRecord,
    UnknownProducer,
    Verdict,
)
from tests.simulation.scheduler import Action, Process, Scheduler, SimExecutor

_BEGINNING: Final = -2
_CALM_S: Final = 0.002
_REFUSED: Final = 0.3
_RETRY_S: Final = 0.5
_SOON: Final = 4  # ways over the network: the message that follows an answer is on its way by then
_CALM_RECORDS: Final = 1_000
_GONE_S: Final = 0.5  # half a minute on a real broker
_UNBLAMED: Final = 0.5  # of producers with rows for a topic that is gone: these blame no row
_WARNING: Final = 30
_DEFAULTS: Final = {"max.message.bytes": "1048588"}  # of topics, as in Kafka
_LOOK_S: Final = 0.01
_IDLE_POLL_S: Final = 2.0  # a poll that nobody waits for may take longer than its timeout


@dataclass(frozen=True, slots=True)
class NetworkOptions:
    """The options of the network to the broker. Shares are between 0 and 1, times in seconds."""

    usual_s: float = 0.003
    #: Requests that take up to ``slow_s``.
    slow: float = 0.02
    slow_s: float = 0.5
    #: Requests with records that break their producer's sequence, which ends the producer.
    refused: float = 0.0
    #: Commits that the coordinator wants to be written again.
    aborted: float = 0.0
    #: Questions for offsets whose connection is lost.
    lost: float = 0.05
    #: The producer's queue holds so many records.
    queue_records: int = 200
    #: A reader gets so many records at once.
    fetch_records: int = 50


def cluster_name(sink: str) -> str:
    """The id of the cluster of a sink."""
    return f"cluster of {sink}"


def stranger_name(sink: str) -> str:
    """The id of the other cluster that the sink's address means at times."""
    return f"stranger at {sink}"


class Grown(enum.Enum):
    """The one whose limit a row exceeds: the producer, or the broker."""

    FOR_US = enum.auto()
    FOR_THE_BROKER = enum.auto()


class Network:
    """Draws delays and failures."""

    def __init__(self, options: NetworkOptions, seed: int) -> None:
        self.options = options
        self.calm = False
        self._rng = Random(f"{seed}:network")
        self._losing = Random(f"{seed}:lost answers")
        self._down: dict[tuple[str, int], float] = {}
        self._standing: dict[str, float] = {}
        self._refusing: dict[str, float] = {}
        self._failing: set[str] = set()
        self._gone: set[str] = set()
        self._grown: set[tuple[str, Grown]] = set()
        self._too_large: dict[tuple[str, bytes | None, bytes | None], Grown] = {}
        self._strange: dict[str, float] = {}
        self._failed_over: set[str] = set()
        self._when_told: dict[str, Action] = {}
        self._limits: dict[str, tuple[int, Grown]] = {}
        #: The additional seconds that acknowledgements of a sink take, by the sink's name.
        self.late_s: dict[str, float] = {}

    def delay(self) -> float:
        """Return the seconds that one request or answer takes."""
        options, rng = self.options, self._rng
        if self.calm:
            return rng.random() * _CALM_S
        if rng.random() < options.slow:
            return rng.random() * options.slow_s
        return rng.random() * options.usual_s

    def loses_answer(self) -> bool:
        """Whether the connection of a question is lost before its answer has come."""
        return not self.calm and self._losing.random() < self.options.lost

    def away(self, partition: Partition, now: float) -> float:
        """Return how much longer the partition has no leader, as far as is known."""
        away = self._down.get((partition.topic, partition.number), 0.0) - now
        return 0.0 if self.calm else max(0.0, away, self.stands(_sink_of(partition), now))

    # ---- sinks, by their names: all that one has, whatever cluster it is on

    def stand_still(self, sink: str, until: float) -> None:
        """Let the sink take no record up to ``until``. If it has a cluster of its own, that does not answer
        either."""
        self._standing[sink] = max(until, self._standing.get(sink, 0.0))

    def stands(self, sink: str, now: float) -> float:
        """Return how much longer the sink stands still."""
        return 0.0 if self.calm else max(0.0, self._standing.get(sink, 0.0) - now)

    def refuse(self, sink: str, until: float) -> None:
        """Let the sink break the sequence of some producers whose records come up to ``until``."""
        self._refusing[sink] = until

    def fail_next(self, sink: str) -> None:
        """Let the cluster answer the sink's next request that has records with a transient error."""
        self._failing.add(sink)

    def fails(self, partition: Partition) -> bool:
        """Whether a request with records gets a transient error (``fail_next``)."""
        sink = _sink_of(partition)
        fails = sink in self._failing
        self._failing.discard(sink)
        return fails

    def lose(self, sink: str) -> None:
        """The topics of the sink are deleted: no record comes to them any more."""
        self._gone.add(sink)

    def is_gone(self, partition: Partition) -> bool:
        """Whether its topic is deleted."""
        return _sink_of(partition) in self._gone

    def grow(self, sink: str, grown: Grown) -> None:
        """Let the next row for the sink be too large, however often it is sent."""
        self._grown.add((_name(sink), grown))

    def limit(self, sink: str, max_bytes: int, grown: Grown) -> None:
        """Let the sink refuse every record that has a value, and in which value and key together have more
        bytes."""
        self._limits[_name(sink)] = max_bytes, grown

    def is_too_large(self, partition: Partition, record: SentRecord, grown: Grown) -> bool:
        """Whether the record is above that limit. Markers, which have no key, are small."""
        sink, known = _sink_of(partition), (partition.topic, record.key, record.value)
        limit = self._limits.get(sink)
        if limit is not None and record.key is not None and limit[1] is grown:
            return bool(record.value) and len(record.key) + len(record.value or b"") > limit[0]
        if record.key is not None and (sink, grown) in self._grown:
            self._grown.discard((sink, grown))
            self._too_large.setdefault(known, grown)
        return self._too_large.get(known) is grown

    def make_strange(self, sink: str, until: float) -> None:
        """Let the address of the sink mean another cluster up to ``until``."""
        self._strange[sink] = max(until, self._strange.get(sink, 0.0))

    def when_told(self, sink: str, then: Action) -> None:
        """Call ``then`` when the cluster of the sink has told an admin client its id once more."""
        self._when_told[sink] = then

    def told(self, sink: str) -> Action | None:
        """Return the action that ``when_told`` has noted, since the cluster tells its id now; ``None`` for
        none. It is to be called soon."""
        return self._when_told.pop(sink, None)

    def fail_over(self, sink: str) -> None:
        """Let the address mean another cluster for good; while it is strange after that, it means the former
        cluster again."""
        self._failed_over.add(sink)

    def has_failed_over(self, sink: str) -> bool:
        """Whether its address means another cluster for good."""
        return sink in self._failed_over

    def is_strange(self, sink: str, now: float) -> bool:
        """Whether its address means another cluster now."""
        for_a_while = not self.calm and self._strange.get(sink, 0.0) > now
        return for_a_while is not self.has_failed_over(sink)

    def refuses(self, partition: Partition, now: float) -> bool:
        """Whether a request's records break the sequence of their producer now."""
        refusing = self._refusing.get(_sink_of(partition), 0.0) > now
        return self.happens(self.options.refused) or (refusing and self.happens(_REFUSED))

    def answer_delay(self, partition: Partition) -> float:
        """Return the seconds that the answer to a request with records takes."""
        late_s = 0.0 if self.calm else self.late_s.get(_sink_of(partition), 0.0)
        return self.delay() + late_s

    def take_down(self, partition: Partition, until: float) -> None:
        """Let the partition have no leader up to ``until``."""
        self._down[partition.topic, partition.number] = until

    def happens(self, share: float) -> bool:
        """Whether a fault of this share strikes now."""
        return not self.calm and share > 0 and self._rng.random() < share

    def fetch_size(self) -> int:
        """Return how many records a reader gets this time."""
        return self._rng.randint(1, self.options.fetch_records)

    def request_size(self) -> int:
        """Return how many records a producer sends at once. At the end of a run it is many, so that all sinks
        keep up with whatever a scan gives."""
        return _CALM_RECORDS if self.calm else self.fetch_size()

    def queue_size(self) -> int:
        """Return how many records a producer keeps; at the end of a run as many as it sends at once
        (``request_size``)."""
        return max(_CALM_RECORDS, self.options.queue_records) if self.calm else self.options.queue_records


def _sink_of(partition: Partition) -> str:
    return _name(partition.topic)


def _name(topic: str) -> str:
    return topic.partition("-")[0]


class Message:
    """A record, or an error, as librdkafka gives it."""

    __slots__ = ("_entry", "_error", "_offset", "_partition")

    def __init__(
        self, partition: Partition, offset: int, entry: Entry | None, error: KafkaError | None
    ) -> None:
        self._partition, self._offset, self._entry, self._error = partition, offset, entry, error

    def topic(self) -> str:
        return self._partition.topic

    def partition(self) -> int:
        return self._partition.number

    def offset(self) -> int:
        return self._offset

    def key(self) -> bytes | None:
        return None if self._entry is None else self._entry.key

    def value(self) -> bytes | None:
        return None if self._entry is None else self._entry.value

    def error(self) -> KafkaError | None:
        return self._error


_Delivered = Callable[[KafkaError | None, Message], None]


class _Heard:
    """The news that a client hears of its cluster. librdkafka logs it if the cluster is another one than
    before."""

    def __init__(self) -> None:
        self._known = ""  # the cluster's id, as it was heard last
        self._lines: deque[str] = deque()

    def hear_of(self, cluster_id: str) -> bool:
        """Note the id of the cluster that answers. Return whether it is another cluster than before."""
        is_another = self._known not in ("", cluster_id)
        if is_another:
            self._lines.append("Broker reports different ClusterId")
        self._known = cluster_id
        return is_another

    def tell(self, logger: Any) -> None:
        """Log what was heard, by the thread that polls the client."""
        while self._lines:
            logger.log(_WARNING, "%s [%s] %s", "CLUSTERID", "client", self._lines.popleft())


class SimProducer:
    """``confluent_kafka.Producer``: idempotent, gapless; with ``transactional.id`` transactional."""

    def __init__(self, machine: SimMachine, config: Mapping[str, Any]) -> None:
        self._machine = machine
        self._id: str | None = config.get("transactional.id")
        self._logger = config["logger"]
        self._heard = _Heard()
        self._epoch = -1
        self._fenced = False
        self._unknown = False  # another cluster has refused the open transaction, which can only be aborted
        self._lanes: dict[tuple[str, int], _Lane] = {}
        self._reports: deque[tuple[_Delivered, KafkaError | None, Message]] = deque()
        self._waiting: list[Action] = []
        self._records = 0
        self._fatal: KafkaError | None = None
        self._fatal_told = False
        self._busy = False  # the last transaction's markers are not all written

    def __len__(self) -> int:
        return self._records

    def produce(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None,
        partition: int,
        on_delivery: _Delivered,
        _partitioner: Any,
        timestamp: int,
        headers: Sequence[tuple[str, bytes]],
    ) -> None:
        self._machine.process.require_alive()
        if self._fenced:
            raise KafkaException(_fenced_error())
        if self._fatal is not None:
            raise KafkaException(KafkaError(KafkaError._FATAL, "the producer has come to its end"))
        if self._id is None and self._records >= self._machine.network.queue_size():
            raise BufferError
        place = self._machine.broker.partition(topic, partition)
        if self._id is None:
            self._require_small(place, SentRecord(key, value, timestamp, tuple(headers)))
        lane = self._lanes.get((topic, partition))
        if lane is None:
            lane = self._lanes[topic, partition] = _Lane(self, self._machine, place)
        self._records += 1
        lane.add(SentRecord(key, value, timestamp, tuple(headers)), on_delivery)

    def _require_small(self, place: Partition, record: SentRecord) -> None:
        if self._machine.network.is_too_large(place, record, Grown.FOR_US):
            raise KafkaException(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE, "above message.max.bytes"))

    def list_topics(self, topic: str, timeout: float) -> Any:
        """Return metadata of the cluster, after a request to it."""
        self._machine.wait()
        found = self._machine.cluster_id
        self.hear_of(found)
        return SimpleNamespace(cluster_id=found)

    def hear_of(self, cluster_id: str) -> None:
        """Hear of a cluster, as librdkafka does by the metadata of each connection, before that connection's
        answers."""
        if self._heard.hear_of(cluster_id):
            self._wake()

    def poll(self, timeout: float = 0.0) -> int:
        """Serve delivery reports; waits for some. Raises the error that has ended the producer, once."""
        self._machine.process.require_alive()
        if not self._reports and timeout and (self._fatal is None or self._fatal_told):
            self._wait(max(timeout, _IDLE_POLL_S) if self._id is None else timeout)
        if self._fatal is not None and not self._fatal_told:
            self._fatal_told = True
            raise KafkaException(self._fatal)
        served = 0
        self._heard.tell(self._logger)
        while self._reports:
            delivered, error, message = self._reports.popleft()
            self._records -= 1
            delivered(error, message)
            served += 1
        return served

    def flush(self, timeout: float) -> int:
        clock = self._machine.scheduler
        deadline = clock.now + timeout
        self.poll()
        while self._records and clock.now < deadline:
            self.poll(deadline - clock.now)
        return self._records

    def purge(self) -> None:
        """Give up all records without an answer. Those that are on their way may still arrive, or not."""
        for lane in self._lanes.values():
            lane.purge()
        self._lanes.clear()

    def end(self, error: KafkaError) -> None:
        """End the producer: an answer says that its sequence has a gap. A transactional producer can still
        abort."""
        if self._id is None and self._fatal is None:
            self._fatal = error
            self._wake()

    def close(self) -> None:
        """Give the connections back."""

    # ---- transactions

    def init_transactions(self, _timeout: float) -> None:
        epochs: list[int] = []
        assert self._id is not None
        owner_id = self._id

        def arrive(then: Action) -> None:
            def taken_over(epoch: int) -> None:
                epochs.append(epoch)
                then()

            self._machine.broker.take_over(owner_id, taken_over)

        self._machine.ask(arrive)
        self._epoch = epochs[0]

    def begin_transaction(self) -> None:
        self._machine.process.require_alive()
        if self._fenced:
            raise KafkaException(_fenced_error())
        if self._unknown:
            raise KafkaException(KafkaError(KafkaError._STATE, "a transaction has to be aborted"))

    def commit_transaction(self, timeout: float) -> None:
        self.flush(timeout)
        if self._unknown:
            raise KafkaException(_unknown_error())
        if self._machine.network.happens(self._machine.network.options.aborted):
            error = KafkaError(KafkaError.COORDINATOR_NOT_AVAILABLE, "told to abort", False, False, True)
            raise KafkaException(error)
        self._end(Verdict.COMMITTED)

    def abort_transaction(self, timeout: float) -> None:
        while self.flush(timeout) and not self._fenced:
            pass  # records that are on their way must not get into the next transaction
        if self._unknown:  # librdkafka asks the cluster that answers, whichever it is, for another epoch
            self._unknown = False
            self.init_transactions(timeout)
        else:
            self._end(Verdict.ABORTED)

    def _end(self, verdict: Verdict) -> None:
        assert self._id is not None
        owner_id, epoch, refused = self._id, self._epoch, [self._fenced]

        def ended() -> None:
            self._busy = False
            for lane in self._lanes.values():
                lane.wake()

        def arrive(then: Action) -> None:
            try:
                self._busy = True
                self._machine.process.light("commit")
                self._machine.broker.end(owner_id, epoch, verdict, ended)
            except Fenced:
                refused[0] = True
            except UnknownProducer:
                self._unknown = True
            then()  # the answer does not wait for the markers

        if not self._fenced:
            self._machine.ask(arrive)
        if refused[0]:
            self._fenced = True
            raise KafkaException(_fenced_error())
        if self._unknown:
            raise KafkaException(_unknown_error())

    @property
    def is_transactional(self) -> bool:
        """Whether a transaction says what becomes of its records."""
        return self._id is not None

    @cached_property
    def destroys_partitions(self) -> bool:
        """Whether it throws the partitions of a deleted topic away before it reports their rows."""
        return self._machine.network.happens(_UNBLAMED)

    @property
    def may_send(self) -> bool:
        """Whether the coordinator lets records of the next transaction in."""
        return not self._busy

    def append(self, place: Partition, records: Sequence[SentRecord]) -> int:
        """Append the records of a request that has arrived at the broker."""
        broker = self._machine.broker
        if self._id is None:
            return broker.append(place, records)
        return broker.append_in_transaction(self._id, self._epoch, place, records)

    def fence(self) -> None:
        """Note that the producer's epoch is over, as an answer says."""
        self._fenced = True

    def doubt(self) -> None:
        """Note that the cluster does not know the producer, as an answer says."""
        self._unknown = True

    def report(self, delivered: _Delivered, error: KafkaError | None, message: Message) -> None:
        """Report that a record was delivered, or was not."""
        self._reports.append((delivered, error, message))
        self._wake()

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for resume in waiting:
            resume()

    def _wait(self, timeout: float) -> None:
        scheduler = self._machine.scheduler
        resume = scheduler.park()
        self._waiting.append(resume)
        scheduler.after(timeout, resume, self._machine.process)
        scheduler.wait_parked()


class _Lane:
    """One producer's records for one partition: sent in order, one request at a time."""

    def __init__(self, producer: SimProducer, machine: SimMachine, place: Partition) -> None:
        self._producer = producer
        self._machine = machine
        self._place = place
        self._queue: deque[tuple[SentRecord, _Delivered]] = deque()
        self._sending = False
        self._refused = False
        self._answered_at = 0.0
        self._unanswered: dict[int, list[tuple[SentRecord, _Delivered]]] = {}

    def add(self, record: SentRecord, delivered: _Delivered) -> None:
        self._queue.append((record, delivered))
        self.wake()

    def wake(self) -> None:
        """Send what is queued, unless a request is on its way, or was refused. After a refusal an idempotent
        producer's later requests are refused as well, for their sequence has a gap."""
        if self._queue and not self._sending and not self._refused and self._producer.may_send:
            self._sending = True
            network, scheduler = self._machine.network, self._machine.scheduler
            scheduler.after(network.delay(), self._send, self._machine.process)

    def _send(self) -> None:
        """Send records: from here on they are on the wire, whatever becomes of the process."""
        network, scheduler = self._machine.network, self._machine.scheduler
        if network.is_gone(self._place):
            scheduler.after(_GONE_S, self._give_up, self._machine.process)
            return
        if away := network.away(self._place, scheduler.now):
            scheduler.after(min(away, _RETRY_S), self._send, self._machine.process)
            return
        count = min(len(self._queue), network.request_size())
        batch = [self._queue.popleft() for _ in range(count)]
        self._unanswered[id(batch)] = batch
        scheduler.after(network.delay(), lambda: self._arrive(batch))

    def _give_up(self) -> None:
        """Give the rows up: the topic was looked for long enough, or its partition is thrown away with its
        rows."""
        error = KafkaError(KafkaError._UNKNOWN_PARTITION, "no such partition")
        if self._producer.destroys_partitions:
            error = KafkaError(KafkaError._DESTROY, "the partition is destroyed")
        batch = [*self._queue]
        self._queue.clear()
        self._report(batch, -1, error)
        self._sent()

    def purge(self) -> None:
        """Report what is queued, and what is not answered, as given up."""
        for batch in self._unanswered.values():
            self._report(batch, -1, KafkaError(KafkaError._PURGE_INFLIGHT, "purged on its way"))
        self._report([*self._queue], -1, KafkaError(KafkaError._PURGE_QUEUE, "purged"))
        self._unanswered.clear()
        self._queue.clear()

    def _arrive(self, batch: list[tuple[SentRecord, _Delivered]]) -> None:
        network, scheduler, process = self._machine.network, self._machine.scheduler, self._machine.process
        error: KafkaError | None = None
        first = -1
        process.light("rows")
        self._producer.hear_of(self._machine.cluster_id)
        place = self._machine.broker.partition(self._place.topic, self._place.number)
        if self._is_too_large(batch):
            error = KafkaError(KafkaError.MSG_SIZE_TOO_LARGE, "above max.message.bytes")
            self._refused = True
        elif network.refuses(self._place, scheduler.now):
            error = KafkaError(KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER, "the sequence has a gap")
            self._refused = not self._producer.is_transactional
        elif network.fails(self._place):
            error = KafkaError(KafkaError.UNKNOWN, "an error of the server")
            self._refused = not self._producer.is_transactional
        else:
            try:
                first = self._producer.append(place, [record for record, _ in batch])
            except Fenced:
                error = _fenced_error()
            except UnknownProducer:
                error = _unknown_error()
        scheduler.after(0.0, self._sent, process)
        self._answered_at = max(self._answered_at, scheduler.now + network.answer_delay(self._place))
        scheduler.at(self._answered_at, lambda: self._answer(batch, first, error), process)

    def _sent(self) -> None:
        self._sending = False
        self.wake()

    def _answer(
        self, batch: list[tuple[SentRecord, _Delivered]], first: int, error: KafkaError | None
    ) -> None:
        if self._unanswered.pop(id(batch), None) is None:  # it was purged
            return
        if error is not None and error.code() == KafkaError._FENCED:
            self._producer.fence()
        elif error is not None and error.code() == KafkaError.INVALID_PRODUCER_ID_MAPPING:
            self._producer.doubt()
        elif error is not None:
            self._producer.end(error)
        self._report(batch, first, error)

    def _is_too_large(self, batch: list[tuple[SentRecord, _Delivered]]) -> bool:
        """Whether one of the records is too large for the broker. A transactional producer has no rows, so
        its records never are."""
        network = self._machine.network
        return not self._producer.is_transactional and any(
            network.is_too_large(self._place, record, Grown.FOR_THE_BROKER) for record, _ in batch
        )

    def _report(
        self, batch: list[tuple[SentRecord, _Delivered]], first: int, error: KafkaError | None
    ) -> None:
        for number, (record, delivered) in enumerate(batch):
            entry = Entry(first + number, record, record.timestamp_ms)
            self._producer.report(delivered, error, Message(self._place, first + number, entry, error))


class SimConsumer:
    """``confluent_kafka.Consumer`` without a group. It reports the ends of partitions."""

    def __init__(self, machine: SimMachine, config: Mapping[str, Any]) -> None:
        self._machine = machine
        self._committed = config["isolation.level"] == "read_committed"
        self._positions: dict[Partition, int] = {}
        self._told: dict[Partition, int] = {}

    def assign(self, places: Sequence[Any]) -> None:
        self._machine.process.require_alive()
        for place in places:
            partition = self._machine.broker.partition(place.topic, place.partition)
            self._positions[partition] = partition.start if place.offset == _BEGINNING else place.offset

    def consume(self, most: int, timeout: float) -> list[Message]:
        """Waits for a part of the timeout, so that ends and records come at any time."""
        network = self._machine.network
        self._machine.scheduler.block(min(timeout, network.delay() + timeout * network.delay()))
        found: list[Message] = []
        for partition, position in self._positions.items():
            size = min(most, network.fetch_size() * 10)
            entries, after = partition.read(position, size, committed=self._committed)
            found += [Message(partition, entry.offset, entry, None) for entry in entries]
            self._positions[partition] = after
            end = partition.stable_end if self._committed else partition.end
            if after == end and self._told.get(partition) != end:
                self._told[partition] = end
                found.append(Message(partition, end, None, KafkaError(KafkaError._PARTITION_EOF)))
        if not found:
            self._machine.scheduler.block(timeout * 0.7)
        return found

    def get_watermark_offsets(self, place: Any, timeout: float) -> tuple[int, int]:
        self._machine.wait()
        partition = self._machine.broker.partition(place.topic, place.partition)
        bounds = partition.start, partition.stable_end if self._committed else partition.end
        self._machine.wait()
        return bounds

    def close(self) -> None:
        """Give the connections back."""


class SimAdmin:
    """``confluent_kafka.admin.AdminClient``."""

    def __init__(self, machine: SimMachine, config: Mapping[str, Any]) -> None:
        self._machine = machine
        self._logger = config["logger"]
        self._heard = _Heard()

    def poll(self, timeout: float) -> int:
        """Log what was noticed of the cluster."""
        self._heard.tell(self._logger)
        return 0

    def _hear(self) -> str:
        """Return the id of the cluster that answers. Right after the answer, the address may come to mean
        another cluster."""
        found = self._machine.cluster_id
        self._heard.hear_of(found)
        return found

    def list_topics(self, topic: str, timeout: float) -> Any:
        self._machine.wait()
        cluster_id, found = self._hear(), self._machine.broker.topics.get(topic)
        if then := self._machine.network.told(self._machine.sink):
            self._machine.scheduler.after(self._machine.network.delay() * _SOON, then)
        if found is None:
            unknown = KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)
            answer = SimpleNamespace(error=unknown, partitions={})
        else:
            answer = SimpleNamespace(error=None, partitions=dict(enumerate(found.partitions)))
        return SimpleNamespace(topics={topic: answer}, cluster_id=cluster_id)

    def create_topics(self, topics: Sequence[Any], request_timeout: float) -> dict[str, Future[Any]]:
        self._machine.wait()
        answers = {}
        for topic in topics:
            future: Future[Any] = Future()
            if self._machine.broker.create(topic.topic, topic.num_partitions, topic.config):
                future.set_result(None)
            else:
                future.set_exception(KafkaException(KafkaError(KafkaError.TOPIC_ALREADY_EXISTS)))
            answers[topic.topic] = future
        return answers

    def describe_configs(self, resources: Sequence[Any], request_timeout: float) -> dict[Any, Future[Any]]:
        self._machine.wait()
        topics = self._machine.broker.topics
        return {
            resource: _known(
                {
                    name: SimpleNamespace(value=value)
                    for name, value in (_DEFAULTS | topics[resource.name].config).items()
                }
            )
            for resource in resources
        }

    def describe_cluster(self, request_timeout: float) -> Future[Any]:
        self._machine.wait()
        return _known(SimpleNamespace(cluster_id=self._hear()))

    def describe_topics(self, topics: Any, request_timeout: float) -> dict[str, Future[Any]]:
        self._machine.wait()
        self._hear()
        known = self._machine.broker.topics
        answers: dict[str, Future[Any]] = {}
        for name in topics.topic_names:
            if name in known:
                answers[name] = _known(SimpleNamespace(topic_id=known[name].id))
            else:
                answers[name] = Future()
                answers[name].set_exception(KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)))
        return answers

    def list_offsets(
        self, places: Mapping[Any, Any], isolation_level: Any, request_timeout: float
    ) -> dict[Any, Future[Any]]:
        self._machine.wait()
        self._hear()
        broker = self._machine.broker
        ends = {place: broker.partition(place.topic, place.partition).end for place in places}
        self._machine.wait()
        if self._machine.network.loses_answer():  # no error is reported, as librdkafka reports none
            ends = dict.fromkeys(places, OFFSET_INVALID)
        return {place: _known(SimpleNamespace(offset=end)) for place, end in ends.items()}


class _Thread:
    """A background thread of a process."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._ended = False

    def do(self, work: Callable[[], None]) -> None:
        """Do the work of the thread, and end."""
        try:
            work()
        finally:
            self._ended = True

    def join(self) -> None:
        """See ``tidegate.worker.process.machine``. Blocks."""
        while not self._ended:
            self._scheduler.block(_LOOK_S)


@dataclass(frozen=True, slots=True)
class _Directory:
    """A directory of state that exists in name only."""

    home: Path

    def partition(self, partition: int) -> Path:
        return self.home / f"partition-{partition}"

    def announce(self, url: str) -> None:
        """Do nothing: nobody asks for the URL."""

    def close(self) -> None:
        """Do nothing: the directory holds nothing open."""


class SimMachine:
    """See ``tidegate.worker.process.machine.Machine``: the things outside of one process that it uses."""

    clients_most = 900

    def __init__(
        self,
        process: Process,
        broker: Broker,
        network: Network,
        others: Mapping[str, tuple[str, Broker]] | None = None,
        sink: str = "",
    ) -> None:
        """``others`` are clusters of sinks, by their servers; ``sink`` is the name of this one's."""
        self.process = process
        self._broker = broker
        self.network = network
        self.sink = sink
        self.scheduler: Scheduler = process.scheduler
        self._others = others or {}

    @property
    def broker(self) -> Broker:
        """The cluster that its address means now."""
        return self._broker.stranger if self._is_strange and self._broker.stranger else self._broker

    @property
    def cluster_id(self) -> str:
        """The id of the cluster that its address means now."""
        return stranger_name(self.sink) if self._is_strange else cluster_name(self.sink)

    @property
    def _is_strange(self) -> bool:
        return self.network.is_strange(self.sink, self.scheduler.now)

    def producer(self, config: Mapping[str, Any]) -> Any:
        return SimProducer(self._at(config), config)

    def consumer(self, config: Mapping[str, Any]) -> Any:
        return SimConsumer(self._at(config), config)

    def admin(self, config: Mapping[str, Any]) -> Any:
        return SimAdmin(self._at(config), config)

    def clients_for_feeds(self, log_partitions: int) -> int:
        return self.clients_most

    def directory(self, home: Path) -> Any:
        return _Directory(home)

    def executor(self, threads: int, name: str) -> Any:
        """Return an executor. Steps only compute and do not block, so they need no thread."""
        return SimExecutor(self.process, threads, blocking=name != "steps")

    def background(self, work: Callable[[], None], name: str) -> _Thread:
        thread = _Thread(self.scheduler)
        begin = partial(self.scheduler.begin, partial(thread.do, work), self.process)
        self.scheduler.after(0.0, begin, self.process)
        return thread

    def wait(self) -> None:
        """Wait as long as one way over the network takes."""
        while away_s := self._away_s:
            self.scheduler.block(min(away_s, _RETRY_S))
        self.scheduler.block(self.network.delay())

    def ask(self, arrive: Callable[[Action], None]) -> None:
        """Send a request, and wait for its answer; ``arrive`` is called at the broker, and calls its argument
        with the answer."""
        self.process.require_alive()
        scheduler = self.scheduler
        resume = scheduler.park()

        def answer() -> None:
            scheduler.after(self.network.delay(), resume, self.process)

        def send() -> None:
            if away_s := self._away_s:
                scheduler.after(min(away_s, _RETRY_S), send, self.process)
            else:
                scheduler.after(self.network.delay(), lambda: arrive(answer))

        scheduler.after(self.network.delay(), send, self.process)
        scheduler.wait_parked()

    @property
    def _away_s(self) -> float:
        return self.network.stands(self.sink, self.scheduler.now)

    def _at(self, config: Mapping[str, Any]) -> SimMachine:
        """Return this machine as a client of the configuration's cluster sees it, which may be another
        cluster than its own."""
        other = self._others.get(config["bootstrap.servers"])
        if other is None:
            return self
        sink, broker = other
        return SimMachine(self.process, broker, self.network, sink=sink)


def _known(value: Any) -> Future[Any]:
    future: Future[Any] = Future()
    future.set_result(value)
    return future


def _fenced_error() -> KafkaError:
    return KafkaError(KafkaError._FENCED, "fenced by a newer producer", True)


def _unknown_error() -> KafkaError:
    """Return the error with which a cluster answers that has given the producer no epoch: the transaction has
    to be aborted."""
    code = KafkaError.INVALID_PRODUCER_ID_MAPPING
    return KafkaError(code, "a producer that nobody here knows", False, False, True)

"""A sink's address may come to mean another cluster: acknowledgements count once that is ruled out."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from types import SimpleNamespace
from typing import Any
from weakref import ref

import pytest
from confluent_kafka import KafkaError, KafkaException
from structlog.testing import capture_logs

import tidegate.worker.output.barrier
import tidegate.worker.output.row_producer
from tidegate.processor.batch import OutputRecord
from tidegate.processor.written_records import PLACES, LaneOf, WrittenPart, WrittenRecords
from tidegate.worker.operations.metrics import SINK_ENDS
from tidegate.worker.output.barrier import Barrier
from tidegate.worker.output.row_producer import SharedRowProducer
from tidegate.worker.process.settings import Settings

_ROWS = [OutputRecord("topic", 0, b"key", b"%d" % number, 1, []) for number in range(2)]


class Producer:
    """librdkafka's, for one partition, over whatever cluster is at the address of ``world``."""

    def __init__(self, world: World, logger: Any) -> None:
        self._world = world
        self._logger = logger
        self._known = ""
        self._fatal: KafkaError | None = None
        self.queue: list[tuple[bytes, Callable[[KafkaError | None, Any], None]]] = []
        self.reports: list[Callable[[], None]] = []
        self.fails_late = False
        self.while_producing: Callable[[], None] = lambda: None
        self.raises: Exception | None = None  # at each call

    def __len__(self) -> int:
        return len(self.queue) + len(self.reports)

    def produce(self, topic: str, value: bytes, key: bytes, partition: int, delivered: Any, *_: Any) -> None:
        if self.raises is not None:
            raise self.raises
        self.while_producing()
        self.queue.append((value, delivered))

    def deliver(self) -> None:
        """The cluster takes all rows; its acknowledgements come with the next poll."""
        self._hear()
        for value, delivered in self.queue:
            self._world.clusters.setdefault(self._world.now, []).append(value)
            self.reports.append(lambda delivered=delivered: delivered(None, None))  # type: ignore[misc]
        self.queue.clear()

    def refuse(self) -> None:
        """The cluster does not have the topic."""
        self._report(KafkaError(KafkaError._UNKNOWN_PARTITION))

    def give_up(self, code: int) -> None:
        """Report that its rows are given up, and go on."""
        self._report(KafkaError(code))

    def fail(self) -> None:
        """The broker answers with an error of its own: the next poll raises that, as ``end`` says."""
        self._fatal = KafkaError(KafkaError._GAPLESS_GUARANTEE)
        self._report(KafkaError(KafkaError.UNKNOWN))

    def end(self) -> None:
        """A row is above the cluster's limit: the next poll raises that, and reports come with later ones."""
        self._fatal = KafkaError(KafkaError.MSG_SIZE_TOO_LARGE)
        self._report(self._fatal)

    def _report(self, error: KafkaError) -> None:
        self._hear()
        for _, delivered in self.queue:
            self.reports.append(lambda delivered=delivered: delivered(error, _MESSAGE))  # type: ignore[misc]
        self.queue.clear()

    def list_topics(self, topic: str, timeout: float) -> Any:
        if not self._world.answers:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT))
        self._hear()
        return SimpleNamespace(cluster_id=self._world.now)

    def poll(self, timeout: float) -> None:
        if self.fails_late and timeout == tidegate.worker.output.row_producer._REST_S:
            raise KafkaException(KafkaError(KafkaError._FATAL))
        fatal, self._fatal = self._fatal, None
        if fatal is not None:
            raise KafkaException(fatal)
        while self.reports:
            self.reports.pop(0)()

    def purge(self) -> None:
        """Give up what waits, and report that with the next poll."""
        purged = KafkaError(KafkaError._PURGE_QUEUE)
        for _, delivered in self.queue:
            self.reports.append(lambda delivered=delivered: delivered(purged, _MESSAGE))  # type: ignore[misc]
        self.queue.clear()

    def flush(self, timeout: float) -> int:
        self.poll(timeout)
        return len(self)

    def _hear(self) -> None:
        if self._known not in ("", self._world.now):
            line = ("CLUSTERID", "producer", "Broker reports different ClusterId")
            self.reports.append(lambda: self._logger.log(30, "%s [%s] %s", *line))
        self._known = self._world.now


_MESSAGE = SimpleNamespace(
    topic=lambda: "topic", partition=lambda: 0, key=lambda: b"key", value=lambda: b"value"
)


class World:
    """The cluster that is at the address now, and the rows that clusters have. It stands where
    ``tidegate.worker.process.machine`` does."""

    def __init__(self) -> None:
        self.now = "home"
        self.answers = True
        self.clusters: dict[str, list[bytes]] = {}
        self.producers: list[Producer] = []

    def producer(self, config: Mapping[str, Any]) -> Producer:
        self.producers.append(Producer(self, config["logger"]))
        return self.producers[-1]

    def background(self, work: Callable[[], None], name: str) -> Any:
        """The test takes the turns of the thread."""
        return SimpleNamespace(join=lambda: None)


class Watched:
    """A sink, its world, and a loop for barriers."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.world = World()
        machine: Any = self.world
        self._machine = machine
        self.sink = SharedRowProducer(Settings(), machine, watched=True)
        self._loop = loop

    def barrier(self, rows: int = len(_ROWS)) -> Barrier:
        return Barrier(rows, self._loop)

    def send(self, barrier: Barrier, rows: Sequence[OutputRecord] = _ROWS, first: int = 0) -> int:
        return self.sink.send_to("home", rows, barrier, first)

    def turn(self) -> None:
        """Do what the sink's thread does again and again, and then what the loop does."""
        if not self.sink.is_over:  # then its thread has ended
            self._take_turn(self.sink)
        self._loop.run_until_complete(asyncio.sleep(0))

    @staticmethod
    def _take_turn(sink: SharedRowProducer) -> None:
        assert sink._watch is not None
        sink._polls = tidegate.worker.output.row_producer._ASK_AGAIN_POLLS
        sink._poll_once(0.0)
        sink._compare(sink._watch)
        if sink._ends.is_set():
            sink._come_to_the_end()

    def begin_again(self) -> None:
        """Another producer takes the place of the one that is over."""
        assert self.sink.is_over
        self.sink = SharedRowProducer(Settings(), self._machine, watched=True, topic=self.sink.topic)

    def known(self) -> None:
        """The cluster has told its id."""
        assert self.send(self.barrier()) == 0
        self.turn()


@pytest.fixture(autouse=True)
def _refused_by_the_fifth_producer_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tidegate.worker.output.barrier, "DOUBTED_FOR_S", 0.0)


@pytest.fixture
def watched() -> Iterator[Watched]:
    loop = asyncio.new_event_loop()
    with closing(loop):
        found = Watched(loop)
        yield found
        found.sink.close()


@pytest.fixture(autouse=True)
def ended(monkeypatch: pytest.MonkeyPatch) -> list[BaseException]:
    found: list[BaseException] = []
    monkeypatch.setattr(tidegate.worker.output.row_producer, "end_process", found.append)
    return found


def _ends() -> float:
    """Return how many producers have come to their end, by the metric."""
    return float(SINK_ENDS.labels(Settings().bootstrap_servers)._value.get())


def test_no_row_goes_out_before_the_cluster_has_told_its_id(watched: Watched) -> None:
    watched.world.answers = False
    assert watched.send(watched.barrier()) == 0
    watched.turn()
    assert watched.send(watched.barrier()) == 0
    watched.world.answers = True
    watched.turn()
    assert watched.send(watched.barrier()) == len(_ROWS)


def test_no_row_goes_to_another_cluster(watched: Watched) -> None:
    watched.world.now = "away"
    watched.known()
    assert watched.send(watched.barrier()) == 0
    assert watched.sink.cluster_id == "away"


def test_acknowledgements_count_once_the_cluster_was_asked_after_them(watched: Watched) -> None:
    watched.known()
    barrier = watched.barrier()
    watched.send(barrier)
    watched.world.producers[0].deliver()
    watched.world.answers = False
    watched.turn()
    assert (barrier.left, barrier.acknowledged.done()) == (0, False)
    watched.world.answers = True
    watched.turn()
    assert barrier.acknowledged.done()


def test_acknowledgements_of_another_cluster_do_not_count(watched: Watched) -> None:
    watched.known()
    barrier = watched.barrier()
    watched.send(barrier)
    watched.world.now = "away"
    watched.world.producers[0].deliver()
    watched.turn()
    watched.turn()
    assert (watched.sink.is_over, barrier.acknowledged.done()) == (True, False)


def test_nor_do_they_when_the_former_cluster_is_back_before_anybody_has_looked(watched: Watched) -> None:
    watched.known()
    barrier = watched.barrier()
    watched.send(barrier, first=1)
    watched.world.now = "away"
    watched.world.producers[0].deliver()
    watched.world.now = "home"
    watched.send(barrier, _ROWS[:1])
    watched.world.producers[0].deliver()
    watched.turn()
    watched.turn()
    assert watched.world.clusters == {"away": [b"1"], "home": [b"0"]}
    assert (watched.sink.is_over, barrier.acknowledged.done()) == (True, False)


def test_what_a_producer_raises_when_it_has_come_to_its_end_already_ends_nothing_else(
    watched: Watched,
) -> None:
    watched.known()
    watched.world.producers[0].fails_late = True
    watched.world.now = "away"
    watched.turn()
    assert watched.sink.is_over


def test_when_another_cluster_is_seen_another_producer_is_given_the_rows_once_it_is_gone(
    watched: Watched,
) -> None:
    watched.known()
    barrier = watched.barrier()
    watched.send(barrier)
    watched.world.now = "away"
    watched.turn()
    assert (len(watched.world.producers[0]), barrier.acknowledged.done()) == (0, False)
    watched.begin_again()
    watched.turn()
    assert (watched.send(barrier), watched.sink.cluster_id) == (0, "away")
    watched.world.now = "home"
    watched.turn()
    watched.begin_again()
    watched.turn()
    barrier.begin_again(len(_ROWS))
    assert watched.send(barrier) == len(_ROWS)
    watched.world.producers[-1].deliver()
    watched.turn()
    assert barrier.acknowledged.done()
    assert watched.world.clusters == {"home": [b"0", b"1"]}


def test_refusals_of_another_cluster_do_not_count(watched: Watched) -> None:
    watched.known()
    barrier = watched.barrier()
    watched.send(barrier)
    watched.world.now = "away"
    watched.world.producers[0].refuse()
    watched.turn()
    assert (watched.sink.is_over, barrier.refusal) == (True, None)


def test_refusals_of_the_right_cluster_count_once_it_was_asked_after_them(watched: Watched) -> None:
    watched.known()
    barrier = watched.barrier()
    watched.send(barrier)
    watched.world.producers[0].refuse()
    watched.world.answers = False
    watched.turn()
    assert barrier.refusal is None
    watched.world.answers = True
    watched.turn()
    assert "topic" in str(barrier.refusal)


def test_a_refusal_that_ends_the_producer_counts_once_the_cluster_was_asked_after_it(
    watched: Watched,
) -> None:
    watched.known()
    barrier = watched.barrier()
    watched.send(barrier)
    watched.world.producers[0].end()
    watched.turn()
    assert watched.sink.is_over
    assert "above the topic's max.message.bytes" in str(barrier.refusal)


def test_it_counts_though_it_was_waiting_for_an_answer_when_the_producer_came_to_its_end(
    watched: Watched,
) -> None:
    watched.known()
    acknowledged, refused = watched.barrier(), watched.barrier()
    watched.send(acknowledged)
    watched.world.producers[0].deliver()
    watched.world.answers = False
    watched.turn()
    watched.world.answers = True
    watched.send(refused)
    watched.world.producers[0].end()
    watched.turn()
    assert (watched.sink.is_over, acknowledged.acknowledged.done()) == (True, True)
    assert refused.refusal is not None


@pytest.mark.parametrize("name", ["_DESTROY", "_PURGE_QUEUE", "_TRANSPORT", "OUT_OF_ORDER_SEQUENCE_NUMBER"])
def test_a_row_that_is_given_up_and_not_at_fault_ends_the_producer_and_comes_to_the_next_one(
    watched: Watched, name: str
) -> None:
    """Nobody would answer for it any more, and its batch would wait for ever."""
    watched.known()
    barrier, before = watched.barrier(), _ends()
    watched.send(barrier)
    watched.world.producers[0].give_up(getattr(KafkaError, name))
    watched.turn()
    watched.turn()
    assert _ends() - before == 1, "the second row has found it ended"
    assert (watched.sink.is_over, barrier.refusal, barrier.left) == (True, None, len(_ROWS))
    watched.begin_again()
    watched.turn()
    barrier.begin_again(len(_ROWS))
    assert watched.send(barrier) == len(_ROWS)
    watched.world.producers[-1].deliver()
    watched.turn()
    assert barrier.acknowledged.done()


def _next_producer(watched: Watched, barrier: Barrier) -> Producer:
    """Let the producer come to its end, and give the rows to another one."""
    watched.turn()
    watched.begin_again()
    watched.turn()
    barrier.begin_again(len(_ROWS))
    assert watched.send(barrier) == len(_ROWS)
    return watched.world.producers[-1]


def test_a_row_with_an_answer_that_may_pass_comes_to_the_next_producer(watched: Watched) -> None:
    """Kafka's UNKNOWN_SERVER_ERROR, for example: librdkafka does not send the row again."""
    watched.known()
    barrier = watched.barrier()
    watched.send(barrier)
    watched.world.producers[0].fail()
    producer = _next_producer(watched, barrier)
    assert barrier.refusal is None
    producer.deliver()
    watched.turn()
    assert barrier.acknowledged.done()


def test_a_row_is_refused_once_five_producers_had_such_an_answer(watched: Watched) -> None:
    watched.known()
    barrier, producer = watched.barrier(), watched.world.producers[0]
    watched.send(barrier)
    for _ in range(4):
        producer.fail()
        producer = _next_producer(watched, barrier)
    assert barrier.refusal is None
    producer.fail()
    watched.turn()
    assert "a row of 8 bytes for topic partition 0, key 6b6579: " in str(barrier.refusal)
    assert "5 producers had an answer like that" in str(barrier.refusal)


def test_answers_of_another_cluster_do_not_count_among_those_five(watched: Watched) -> None:
    watched.known()
    barrier, producer = watched.barrier(), watched.world.producers[0]
    watched.send(barrier)
    for _ in range(8):
        watched.world.now = "away"
        producer.fail()
        watched.turn()
        watched.world.now = "home"
        producer = _next_producer(watched, barrier)
    assert barrier.refusal is None


def test_a_call_with_an_error_that_may_pass_ends_the_producer_too(watched: Watched) -> None:
    watched.known()
    barrier = watched.barrier()
    watched.world.producers[0].raises = KafkaException(KafkaError(KafkaError._STATE))
    assert watched.send(barrier) == 0
    assert _next_producer(watched, barrier)
    assert barrier.refusal is None


@pytest.mark.parametrize("broken", [ValueError("embedded null character"), TypeError("a str, not bytes")])
def test_a_row_that_the_client_cannot_be_given_is_refused_and_ends_nothing(
    watched: Watched, broken: Exception, ended: list[BaseException]
) -> None:
    watched.known()
    barrier, other = watched.barrier(), watched.barrier()
    watched.world.producers[0].raises = broken
    assert watched.send(barrier, first=1) == 1
    assert "a row of 4 bytes for topic partition 0, key 6b6579: " in str(barrier.refusal)
    assert str(broken) in str(barrier.refusal)
    watched.world.producers[0].raises = None
    assert watched.send(other) == len(_ROWS)
    assert not ended


def test_faults_of_the_process_itself_are_raised(watched: Watched) -> None:
    watched.known()
    watched.world.producers[0].raises = MemoryError()
    with pytest.raises(MemoryError):
        watched.send(watched.barrier())


def test_rows_that_are_given_up_as_the_sink_closes_end_nothing(watched: Watched) -> None:
    """Else a sink that is not asked for any more tells of a producer that another one replaces."""
    watched.known()
    barrier, sink = watched.barrier(), watched.sink
    watched.send(barrier)
    before = _ends()
    with capture_logs() as lines:
        sink.close()
    assert (len(watched.world.producers[0]), barrier.left) == (0, len(_ROWS)), "they were given up"
    assert (lines, _ends() - before, sink._ends.is_set(), sink.is_over) == ([], 0, False, False)


def test_a_refusal_of_another_cluster_that_ends_the_producer_does_not_count(watched: Watched) -> None:
    watched.known()
    barrier = watched.barrier()
    watched.send(barrier)
    watched.world.now = "away"
    watched.world.producers[0].end()
    watched.turn()
    assert (watched.sink.is_over, barrier.refusal) == (True, None)


def test_nor_does_it_when_the_former_cluster_is_back_before_the_end_is_heard(watched: Watched) -> None:
    watched.known()
    barrier = watched.barrier()
    watched.send(barrier)
    watched.world.now = "away"
    watched.world.producers[0].end()
    watched.world.now = "home"
    watched.turn()
    assert (watched.sink.is_over, barrier.refusal) == (True, None)


def test_where_nobody_answers_the_next_producer_has_the_row_refused_again(watched: Watched) -> None:
    watched.known()
    barrier = watched.barrier()
    watched.send(barrier)
    watched.world.producers[0].end()
    watched.world.answers = False
    watched.turn()
    assert barrier.refusal is None
    watched.begin_again()
    watched.world.answers = True
    watched.turn()
    barrier.begin_again(len(_ROWS))
    assert watched.send(barrier) == len(_ROWS)
    watched.world.producers[1].end()
    watched.turn()
    assert barrier.refusal is not None


def test_a_row_that_is_refused_again_and_again_while_nobody_answers_is_noted_once(watched: Watched) -> None:
    watched.known()
    watched.world.answers = False
    watched.world.producers[0].raises = KafkaException(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE))
    barrier = watched.barrier()
    for _ in range(100):
        assert watched.send(barrier) == 0
    assert watched.sink._unconfirmed.qsize() == 1
    watched.world.answers = True
    watched.turn()
    assert barrier.refusal is not None


def test_no_row_comes_behind_the_purge_of_its_producer(watched: Watched) -> None:
    """The producer comes to its end, by another thread, between two rows of a batch."""
    watched.known()
    producer, ending = watched.world.producers[0], threading.Thread(target=watched.sink._come_to_the_end)

    def end() -> None:
        producer.while_producing = lambda: None
        watched.sink._ends.set()
        ending.start()
        ending.join(0.1)  # it has to wait for the rows

    producer.while_producing = end
    watched.send(watched.barrier())
    ending.join()
    assert watched.sink.is_over
    assert producer.queue == []
    assert watched.send(watched.barrier()) == 0


def _written(values: Sequence[bytes]) -> WrittenRecords:
    """Rows as a kernel gives them, all with the key ``key``."""
    text, places = b"", b""
    for number, value in enumerate(values):
        ends = len(text) + 3, len(text) + 3 + len(value)
        text += b"key" + value
        places += PLACES.pack(number, 0, *ends, ends[1], 0)
    lanes = [LaneOf(0, "topic", None, (), None)]
    return WrittenRecords([WrittenPart(range(len(values)), places, text, [0] * len(values), lanes)])


@pytest.mark.parametrize("half", [1, 2, 4])
def test_rows_of_a_kernel_go_out_once_each_and_in_order_however_often_there_is_no_room(
    watched: Watched, half: int
) -> None:
    watched.known()
    (producer,), values = watched.world.producers, [b"%d" % number for number in range(5)]
    rows, barrier, first = _written(values[:half]) + _written(values[half:]), watched.barrier(5), 0

    def no_room() -> None:
        if producer.queue:
            raise BufferError

    producer.while_producing = no_room
    while first < len(rows):
        given = watched.send(barrier, rows, first)
        assert given == first + 1
        first = given
        producer.deliver()
        watched.turn()
    assert watched.world.clusters["home"] == values
    watched.turn()
    assert barrier.counts


def test_a_sink_that_is_over_holds_on_to_no_producer(watched: Watched) -> None:
    """An idle feed keeps its sink until it has rows again."""
    watched.known()
    producer = ref(watched.world.producers.pop())
    watched.world.now = "away"
    watched.turn()
    gc.collect()
    assert (watched.sink.is_over, producer(), watched.sink.pending()) == (True, None, 0)

"""librdkafka's producers over Kafka clusters that a test makes: addresses that come to mean others, sinks
that stand still, and rows that are refused.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from random import Random
from types import SimpleNamespace
from typing import Any, Final, TypeAlias

from confluent_kafka import KafkaError, KafkaException

from tidegate.processor.batch import OutputRecord

#: The cluster that is stored with a feed, and one that has nothing to do with it.
STORED: Final = "stored"
STRANGER: Final = "stranger"
_WARNING: Final = 30
_COMES_BACK: Final = 0.1

Delivered: TypeAlias = Callable[[KafkaError | None, Any], None]


class DrivenClients:
    """Stands where ``confluent_kafka.Producer`` does.

    ``see`` is told of each row that the cluster at its address has if that is the stored one. The address
    ``away`` comes to mean a stranger with the probability ``wanders`` whenever a producer does something, and
    soon its own again. All others are of the stored cluster, and always answer.

    ``room`` are the rows that the cluster at ``away`` takes yet, and ``silent`` whether it tells its id.
    ``grows`` has, by the beginning of topics' names, the probability that a row is above its limit. Of topics
    in ``gone`` it has none. ``refused`` are the topics of which it has refused a row. ``doubts`` is the
    probability that the stored cluster answers for a row with an error that passes, which ``doubted`` counts.
    ``given`` is told of each row that a producer is given.
    """

    def __init__(
        self,
        rng: Random,
        away: str,
        see: Callable[[OutputRecord], None],
        given: Callable[[OutputRecord], None] = lambda _: None,
    ) -> None:
        self._rng = rng
        self.away = away
        self.now = 0.0
        self.is_there = STORED
        self.wanders = 0.0
        self.grows: Mapping[str, float] = {}
        self.doubts = 0.0
        self.doubted = 0
        self.room: int | None = None
        self.silent = False
        self.given = given
        self.gone: set[str] = set()
        self.refused: set[str] = set()
        #: Rows of producers that were thrown away, in their order: some of the first of them may arrive yet.
        self.late: list[Sequence[OutputRecord]] = []
        self.changes = 0
        self._see = see
        self._too_large: dict[tuple[object, ...], bool] = {}

    def __call__(self, config: Mapping[str, Any]) -> Client:
        return Client(self, config, is_away=config["bootstrap.servers"] == self.away)

    def arrive_late(self) -> None:
        """Some rows of a producer that nobody knows any more."""
        if self.late:
            rows = self.late.pop(self._rng.randrange(len(self.late)))
            for row in rows[: self._rng.randint(0, len(rows))]:
                if self.refusal(row, STORED) is None:
                    self._see(row)

    def end(self) -> None:
        """All is well from here on, and stays so."""
        self.wanders, self.grows, self.doubts = 0.0, {}, 0.0
        self.room, self.silent = None, False
        self.is_there = STORED

    def happens(self, probability: float) -> bool:
        """Whether something of this probability does."""
        return probability > 0 and self._rng.random() < probability

    def some(self, rows: int) -> int:
        """Return any number of these rows."""
        return self._rng.randint(0, rows)

    def count(self, rows: int) -> int:
        """Return how many of these the cluster at ``away`` takes now."""
        if self.room is None:
            return rows
        count = min(rows, self.room)
        self.room -= count
        return count

    def cluster(self, *, is_away: bool) -> str:
        """Return what is at an address now."""
        if not is_away:
            return STORED
        if self.happens(self.wanders if self.is_there == STORED else _COMES_BACK * bool(self.wanders)):
            self.is_there = STRANGER if self.is_there == STORED else STORED
            self.changes += 1
        return self.is_there

    def keep(self, row: OutputRecord, cluster: str) -> None:
        """A cluster has the row."""
        if cluster == STORED:
            self._see(row)

    def refusal(self, row: OutputRecord, cluster: str) -> KafkaError | None:
        """Return why the cluster does not take the row, however often it is sent."""
        if cluster == STRANGER:
            return _NOT_THERE if self.happens(0.1) else _TOO_LARGE if self.happens(0.1) else None
        if row.topic in self.gone:
            self.refused.add(row.topic)
            return _NOT_THERE
        grows = self.grows.get(row.topic.partition("-")[0], 0.0)
        if self._too_large.setdefault(row[:-1], self.happens(grows)):
            self.refused.add(row.topic)
            return _TOO_LARGE
        if self.happens(self.doubts):
            self.doubted += 1
            return _ODD
        return None


class Client:
    """One producer, of rows without end (`tidegate.client.kafka.row_delivery`)."""

    def __init__(self, clients: DrivenClients, config: Mapping[str, Any], *, is_away: bool) -> None:
        self._clients = clients
        self._is_away = is_away
        self._logger = config.get("logger")
        self._queue: deque[tuple[OutputRecord, Delivered]] = deque()
        self._reports: deque[Callable[[], None]] = deque()
        self._fatal: KafkaError | None = None
        self._fatal_is_told = True
        self._known = ""
        self._astray = False  # another cluster was there: what it sends from then on nobody wants to have

    def __len__(self) -> int:
        return len(self._queue) + len(self._reports)

    def produce(
        self,
        topic: str,
        value: bytes | None,
        key: bytes,
        partition: int,
        delivered: Delivered,
        _: None,
        timestamp_ms: int,
        headers: Any,
    ) -> None:
        """See ``confluent_kafka``, and so below."""
        if self._fatal is not None:
            raise KafkaException(self._fatal)
        row = OutputRecord(topic, partition, key, value, timestamp_ms, headers)
        self._clients.given(row)
        self._queue.append((row, delivered))

    def poll(self, seconds: float) -> int:
        return self._go_on(seconds, self._clients.some(len(self._queue)))

    def flush(self, seconds: float) -> int:
        return self._go_on(seconds, len(self._queue))

    def purge(self, **_: bool) -> None:
        if self._is_away and not self._astray and self._fatal is None:
            self._clients.late.append([row for row, _ in self._queue])
        while self._queue:
            self._report(KafkaError(KafkaError._PURGE_QUEUE, "purged"))

    def list_topics(self, topic: str, timeout: float) -> Any:
        if self._is_away and self._clients.silent:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT, "away"))
        return SimpleNamespace(cluster_id=self._connected())

    def _go_on(self, seconds: float, count: int) -> int:
        self._clients.now += seconds
        for _ in range(self._clients.count(count) if self._is_away else count):
            if self._fatal is not None:
                break
            cluster, row = self._connected(), self._queue[0][0]
            is_lost = self._astray and cluster == STORED
            error = None if is_lost else self._clients.refusal(row, cluster)
            if error is not None:
                if error in (_TOO_LARGE, _ODD):  # the sequence has a gap: no row of any topic follows
                    self._fatal, self._fatal_is_told = KafkaError(error.code(), "fatal", True), False
                self._report(error)
            else:
                self._queue.popleft()
                if not is_lost:
                    self._clients.keep(row, cluster)
        while self._reports:
            self._reports.popleft()()
        if self._fatal is not None and not self._fatal_is_told:
            self._fatal_is_told = True
            raise KafkaException(self._fatal)
        return len(self)

    def _connected(self) -> str:
        cluster = self._clients.cluster(is_away=self._is_away)
        if self._known not in ("", cluster):
            line = ("CLUSTERID", "producer", f"Broker reports different ClusterId {cluster}")
            self._reports.append(lambda: self._log(line))
            self._astray = True
        self._known = cluster
        return cluster

    def _log(self, line: tuple[str, str, str]) -> None:
        if self._logger is not None:
            self._logger.log(_WARNING, "%s [%s] %s", *line)

    def _report(self, error: KafkaError) -> None:
        row, delivered = self._queue.popleft()
        message = SimpleNamespace(
            topic=lambda: row.topic,
            partition=lambda: row.partition,
            key=lambda: row.key,
            value=lambda: row.value,
        )
        self._reports.append(lambda: delivered(error, message))


_TOO_LARGE: Final = KafkaError(KafkaError.MSG_SIZE_TOO_LARGE, "above max.message.bytes")
_ODD: Final = KafkaError(KafkaError.UNKNOWN, "an error of the server")
_NOT_THERE: Final = KafkaError(KafkaError._UNKNOWN_PARTITION, "no such partition")

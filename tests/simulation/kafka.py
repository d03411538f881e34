"""A Kafka cluster in memory: partitions, transactions with fencing, readers that see what is committed.

The simulated cluster has what matters of a real one: control records take offsets; the markers of a
transaction come to its partitions one by one, some time after it was decided; a reader of what is committed
stops at the oldest transaction that is open on its partition; a new owner of a transactional id gets its
epoch only when what the former one left is decided everywhere; and requests of a fenced producer are refused
whenever they come.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Final, NamedTuple

from tests.simulation.scheduler import Action, Scheduler

#: The coordinator's timeout for transactions that nobody ends.
TRANSACTION_TIMEOUT_S: Final = 300.0


class Verdict(enum.Enum):
    """The state of a transaction."""

    OPEN = "open"
    COMMITTED = "committed"
    ABORTED = "aborted"


class Fenced(Exception):
    """The producer's epoch is over."""


class UnknownProducer(Exception):
    """The cluster knows nothing of the producer's transactional id: another cluster gave the producer its
    epoch."""


class SentRecord(NamedTuple):
    """A record on its way to a partition; ``timestamp_ms`` 0 asks for the broker's clock."""

    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    headers: Sequence[tuple[str, bytes]] = ()


@dataclass(slots=True, eq=False)
class Transaction:
    """One transaction of one producer; ``unmarked`` are the partitions that have not heard its verdict."""

    verdict: Verdict = Verdict.OPEN
    unmarked: set[Partition] = field(default_factory=set)
    then: list[Action] = field(default_factory=list)

    @property
    def over(self) -> bool:
        """Whether it is decided, and every partition has heard that."""
        return self.verdict is not Verdict.OPEN and not self.unmarked


class Entry(NamedTuple):
    """The entry at one offset; a control record has no ``record``."""

    offset: int
    record: SentRecord | None
    timestamp: int
    transaction: Transaction | None = None

    @property
    def key(self) -> bytes | None:
        """The record's."""
        assert self.record is not None
        return self.record.key

    @property
    def value(self) -> bytes | None:
        """The record's."""
        assert self.record is not None
        return self.record.value


class Partition:
    """One partition: its entries, whose offsets are dense from zero."""

    def __init__(self, topic: str, number: int) -> None:
        self.topic = topic
        self.number = number
        self.entries: list[Entry] = []
        self.start = 0
        self._open: dict[int, tuple[Transaction, int]] = {}

    @property
    def end(self) -> int:
        """The next offset."""
        return len(self.entries)

    @property
    def stable_end(self) -> int:
        """The offset at which a committed reader has to stop."""
        return min((offset for _, offset in self._open.values()), default=self.end)

    def append(self, records: Sequence[SentRecord], now_ms: int, transaction: Transaction | None) -> int:
        """Append, and return the first offset."""
        first = self.end
        if transaction is not None:
            self._open.setdefault(id(transaction), (transaction, first))
            transaction.unmarked.add(self)
        for number, record in enumerate(records):
            time_ms = record.timestamp_ms or now_ms
            self.entries.append(Entry(first + number, record, time_ms, transaction))
        return first

    def mark(self, transaction: Transaction, now_ms: int) -> None:
        """Append the control record of a decided transaction."""
        self.entries.append(Entry(self.end, None, now_ms, transaction))
        del self._open[id(transaction)]

    def read(self, offset: int, most: int, *, committed: bool = True) -> tuple[list[Entry], int]:
        """Return up to ``most`` records from ``offset`` on, and the position after them."""
        limit = self.stable_end if committed else self.end
        found: list[Entry] = []
        while offset < limit and len(found) < most:
            entry = self.entries[offset]
            offset += 1
            if entry.record is not None and _readable(entry, committed=committed):
                found.append(entry)
        return found, offset


def _readable(entry: Entry, *, committed: bool) -> bool:
    transaction = entry.transaction
    return transaction is None or not committed or transaction.verdict is Verdict.COMMITTED


@dataclass(slots=True)
class Topic:
    """A topic. A topic that is created again under the same name has another id."""

    name: str
    id: str
    partitions: list[Partition]
    config: dict[str, str]


@dataclass(slots=True)
class _Owner:
    """The coordinator's record of one transactional id."""

    epoch: int = -1
    transaction: Transaction | None = None
    deciding: Transaction | None = None  # the one decided last; its markers may not be written yet
    begun: int = 0


class Broker:
    """The cluster. Its methods do what happens when a request arrives. The network is simulated by the
    clients."""

    def __init__(
        self,
        scheduler: Scheduler,
        seed: int,
        base_ms: int,
        slow_markers: float = 0.0,
    ) -> None:
        self.topics: dict[str, Topic] = {}
        self.group: dict[tuple[str, int], int] = {}
        self.fenced = 0
        self.calm = False
        self._scheduler = scheduler
        self._rng = Random(f"{seed}:broker")
        self._base_ms = base_ms
        self._slow_markers = slow_markers
        self._owners: dict[str, _Owner] = {}
        #: Another cluster, which the address of this one means at times (``Network.make_strange``).
        self.stranger: Broker | None = None

    @property
    def now_ms(self) -> int:
        """The cluster's wall clock."""
        return self._base_ms + int(self._scheduler.now * 1000)

    def create(self, name: str, partitions: int, config: Mapping[str, str] | None = None) -> bool:
        """Create a topic. Return whether it was not there yet."""
        if name in self.topics:
            return False
        numbers = range(partitions)
        topic_id = f"{self._rng.getrandbits(64):016x}"
        made = [Partition(name, number) for number in numbers]
        self.topics[name] = Topic(name, topic_id, made, dict(config or {}))
        return True

    def copy_topics(self, other: Broker) -> None:
        """Create the topics that another cluster has, without their records."""
        for topic in list(other.topics.values()):
            self.create(topic.name, len(topic.partitions), topic.config)

    def copy_producers(self, other: Broker, name: str, other_name: str) -> None:
        """Take over the producers of a feed that was on this cluster before, under the ids that they had
        here.

        As if by chance, their epochs are those that the ``other`` cluster has given. An id that has the name
        of the other cluster in it there has the name of this cluster in it here.
        """
        for owner_id, owner in other._owners.items():
            known = self._owners.setdefault(owner_id.replace(other_name, name), _Owner())
            known.epoch = max(known.epoch, owner.epoch)

    def partition(self, topic: str, number: int) -> Partition:
        """One partition of a topic that is there."""
        return self.topics[topic].partitions[number]

    def committed(self, topic: str) -> Iterator[tuple[Partition, Entry]]:
        """Every record that a reader of what is committed can see, partition by partition."""
        for partition in self.topics[topic].partitions:
            entries, _ = partition.read(partition.start, partition.end)
            for entry in entries:
                yield partition, entry

    # ---- producers

    def append(self, partition: Partition, records: Sequence[SentRecord]) -> int:
        """Append records of a producer without transactions."""
        return partition.append(records, self.now_ms, None)

    def append_in_transaction(
        self, owner_id: str, epoch: int, partition: Partition, records: Sequence[SentRecord]
    ) -> int:
        """Append records of a producer with transactions. Raises ``Fenced``, and ``UnknownProducer``."""
        owner = self._owner(owner_id, epoch)
        if owner.transaction is None:
            owner.transaction = Transaction()
            owner.begun += 1
            begun = owner.begun
            self._scheduler.after(TRANSACTION_TIMEOUT_S, lambda: self._expire(owner, begun))
        return partition.append(records, self.now_ms, owner.transaction)

    def end(self, owner_id: str, epoch: int, verdict: Verdict, then: Action) -> None:
        """End the transaction of a producer; ``then`` is called when the next one may begin.

        Raises ``Fenced``, and ``UnknownProducer``.
        """
        owner = self._owner(owner_id, epoch)
        transaction, owner.transaction = owner.transaction, None
        if transaction is None:
            then()
        else:
            self._decide(owner, transaction, verdict, then)

    def take_over(self, owner_id: str, then: Callable[[int], None]) -> None:
        """Fence every producer of this id; ``then`` gets the new epoch once nothing of them is left."""
        owner = self._owners.setdefault(owner_id, _Owner())
        owner.epoch += 1
        epoch = owner.epoch
        left, owner.transaction = owner.transaction, None
        if left is not None:
            self._decide(owner, left, Verdict.ABORTED, lambda: then(epoch))
        elif owner.deciding is not None and not owner.deciding.over:
            owner.deciding.then.append(lambda: then(epoch))
        else:
            then(epoch)

    def _owner(self, owner_id: str, epoch: int) -> _Owner:
        owner = self._owners.get(owner_id)
        if owner is None:
            raise UnknownProducer
        if owner.epoch != epoch:
            self.fenced += 1
            raise Fenced
        return owner

    def _expire(self, owner: _Owner, begun: int) -> None:
        if owner.begun == begun and owner.transaction is not None:
            owner.epoch += 1
            left, owner.transaction = owner.transaction, None
            self._decide(owner, left, Verdict.ABORTED, lambda: None)

    def _decide(self, owner: _Owner, transaction: Transaction, verdict: Verdict, then: Action) -> None:
        owner.deciding = transaction
        transaction.verdict = verdict
        transaction.then.append(then)
        places = sorted(transaction.unmarked, key=lambda place: (place.topic, place.number))
        self._rng.shuffle(places)
        for place in places:
            slow = not self.calm and self._rng.random() < self._slow_markers
            delay = self._rng.uniform(0.05, 2.0) if slow else self._rng.random() * 0.004
            self._scheduler.after(delay, lambda place=place: self._mark(transaction, place))  # type: ignore[misc]
        if not places:
            self._finish(transaction)

    def _mark(self, transaction: Transaction, place: Partition) -> None:
        place.mark(transaction, self.now_ms)
        transaction.unmarked.discard(place)
        self._finish(transaction)

    def _finish(self, transaction: Transaction) -> None:
        if transaction.over:
            then, transaction.then = transaction.then, []
            for action in then:
                action()

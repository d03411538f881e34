"""A simulated store that a test drives: time, splits and merges, and requests that get answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from random import Random

from sim.log.history import History, Mutated
from sim.log.sink import ListSink, WrittenRecord
from sim.options import StoreOptions
from sim.plan import SimTable, TransactionPlan, Workload
from sim.simulation import Simulation
from sim.store.range import Range
from sim.store.store import RangeStore
from tests.logs import BASE_NS, Record
from tidegate.hlc import NANOS_PER_MS, Timestamp
from tidegate.raftlog.entry import RangeId, Trigger, TxnId
from tidegate.raftlog.request import Push, RangeRequest, Scan
from tidegate.rows import TableDescriptor, decode_descriptor
from tidegate.spans import Span


class Finite:
    """The first ``transactions`` transactions of a workload."""

    def __init__(self, workload: Workload, transactions: int) -> None:
        self._workload = workload
        self._transactions = transactions

    def tables(self, modified: Timestamp) -> Sequence[SimTable]:
        """See ``Workload``."""
        return self._workload.tables(modified)

    def plans(self) -> Iterator[TransactionPlan]:
        """See ``Workload``."""
        return islice(self._workload.plans(), self._transactions)


def mutate_somewhere(store: RangeStore, rng: Random) -> None:
    """Change the past of a key outside the op log; the command says where, or that it may be anywhere."""
    ranges = sorted(store.ranges, key=lambda range_: range_.span)
    found = [(range_, keys) for range_ in ranges if (keys := range_.rows.in_order())]
    if found:
        range_, keys = rng.choice(found)
        key = rng.choice(keys)
        trigger = rng.choice((Trigger.ADD_SSTABLE, Trigger.HISTORY_MUTATION))
        mutated = rng.choice(((), (Span(key, key + b"\0"),), (range_.span,)))
        store.mutate(range_, key, trigger, mutated)


class DrivenSim:
    """A simulation, and its log by partition as far as it is written.

    ``history`` is what truly happened. ``skipped`` is the part of it that the log lacks on purpose. ``log``
    has the records of all partitions in the order in which they were written (for ``sim.check``),
    ``partitions`` the same records as Kafka would deliver them.
    """

    def __init__(self, workload: Workload, options: StoreOptions, *, seed: int) -> None:
        self.history, self.skipped = History(), History()
        self.pushed: set[TxnId] = set()
        self._sink = ListSink()
        self.simulation = Simulation(
            workload,
            self._sink,
            self.history,
            options,
            seed=seed,
            base_ns=BASE_NS,
            skipped=self.skipped,
        )
        self.partitions: list[list[Record]] = [[] for _ in range(options.partitions)]
        self._taken = 0
        self._given = [0] * options.partitions

    @property
    def now_ns(self) -> int:
        """The simulated present."""
        return self.simulation.present.ns

    @property
    def log(self) -> Sequence[WrittenRecord]:
        """Everything that was written so far, in order."""
        return self._sink.records

    @property
    def ranges(self) -> list[Range]:
        """The ranges that there are now, in key order."""
        return sorted(self.simulation.store.ranges, key=lambda range_: range_.span)

    @property
    def tables(self) -> tuple[TableDescriptor, ...]:
        """All versions of all tables."""
        return tuple(decode_descriptor(update.descriptor) for update in self.simulation.store.descriptors)

    # ---- what happens ----

    def advance(self, milliseconds: int) -> None:
        """Let time pass. Everything that becomes due meanwhile happens."""
        self.simulation.advance_to(self.now_ns + milliseconds * NANOS_PER_MS)

    def run(self, transactions: int) -> None:
        """Let time pass until so many more transactions have started."""
        self.simulation.run(transactions)

    def stop(self) -> None:
        """Start no more transactions: those that are open end as time goes on. Requests are still
        answered."""
        self.simulation.stop()

    def finish(self) -> None:
        """Stop, and let time pass until everything has ended and is closed."""
        self.simulation.finish()

    def deliver(self) -> None:
        """Let records that are late be written now, so that the log is whole."""
        self.simulation.deliver()

    def push(self, push: Push) -> bool:
        """Ask for transactions to be pushed; false when there is no answer."""
        self.pushed.update(txn.txn_id for txn in push.txns)
        return self.simulation.push(push)

    def scan(self, scan: Scan) -> bool:
        """Ask for a scan, which is answered now or as time goes on; false when there is no answer."""
        return self.simulation.scan(scan)

    def request(self, request: RangeRequest) -> bool:
        """Send a request of either kind."""
        return self.push(request) if isinstance(request, Push) else self.simulation.answer(request)

    def split(self, range_id: RangeId, key: bytes) -> RangeId:
        """Split a range at a key."""
        return self.simulation.split(range_id, key)

    def split_somewhere(self, rng: Random) -> RangeId | None:
        """Split a range at a key that was written; ``None`` when no range has such a key after its start."""
        found = [(range_.id, keys) for range_ in self.ranges if (keys := range_.split_keys())]
        if not found:
            return None
        range_id, keys = rng.choice(found)
        return self.split(range_id, rng.choice(keys))

    def merge(self, left_id: RangeId) -> None:
        """Merge a range with its right neighbour."""
        self.simulation.merge(left_id)

    def merge_somewhere(self, rng: Random) -> RangeId | None:
        """Merge two neighbours; returns the id of the left one, or ``None`` when no table has two ranges."""
        right_of = self.simulation.store.ranges.right_of
        found = [range_.id for range_ in self.ranges if right_of(range_) is not None]
        if not found:
            return None
        left_id = rng.choice(found)
        self.merge(left_id)
        return left_id

    def build_index_somewhere(self, rng: Random) -> None:
        """Build the secondary index of some table."""
        self.simulation.store.build_index(rng.choice(self.tables).id)

    @property
    def mutations(self) -> Sequence[Mutated]:
        """The changes outside the op log so far; the list grows."""
        return self.simulation.store.mutations

    def mutate_somewhere(self, rng: Random) -> None:
        """Change the past of a key outside the op log; the command says where, or that it may be anywhere."""
        mutate_somewhere(self.simulation.store, rng)

    # ---- what can be read ----

    def records(self) -> tuple[list[Record], ...]:
        """Return the records that came since the last call, by partition."""
        for record in self._sink.records[self._taken :]:
            log = self.partitions[record.partition]
            log.append(Record(len(log), record.key, record.value, record.record_time_ms))
        self._taken = len(self._sink.records)
        new = tuple(log[given:] for log, given in zip(self.partitions, self._given, strict=True))
        self._given = [len(log) for log in self.partitions]
        return new

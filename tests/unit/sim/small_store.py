"""A store of two ranges whose every move a test makes itself."""

from __future__ import annotations

from random import Random
from typing import Final

from sim.check import check_log
from sim.clock import Present
from sim.log.history import History
from sim.log.log_writer import LogWriter
from sim.log.sink import ListSink
from sim.options import StoreOptions
from sim.plan import Write
from sim.store.range import Range
from sim.store.scan import RunningScan
from sim.store.store import RangeStore
from sim.store.transaction import Transaction
from sim.workload_tables import declare_table, place_table, table_span
from tidegate.hlc import NANOS_PER_MS, Timestamp
from tidegate.logcheck.breach import Breach
from tidegate.raftlog.decode import decode_entry
from tidegate.raftlog.entry import Command, Entry, Op, RangeId, ScanChunk
from tidegate.raftlog.request import Scan

BASE_NS: Final = 1_700_000_000 * 10**9
TABLE_ID: Final = 100
OPTIONS: Final = StoreOptions(
    partitions=2, nodes=1, max_offset_ms=0, closed_lag_ms=1_000, txn_expiry_ms=5_000
)
_PREFIX: Final = table_span(TABLE_ID).start


def key(name: str) -> bytes:
    """A key of the table; names below ``m`` lie in the first range."""
    return _PREFIX + name.encode()


def put(name: str, value: bytes = b"v") -> Write:
    """A write of a value that never changes."""
    return Write(key(name), value)


class SmallStore:
    """The store, and what it has written so far. One node, whose clock is the present."""

    def __init__(self, options: StoreOptions = OPTIONS) -> None:
        self.present = Present(BASE_NS)
        self.history = History()
        self.sink = ListSink()
        descriptor = declare_table(TABLE_ID, "t", (("k", "STRING"),), ("k",), Timestamp(1))
        self.store = RangeStore(
            options,
            [place_table(descriptor, [key("m")])],
            self.present,
            Random(1),
            LogWriter(self.sink, options.partitions),
            self.history,
        )
        self.first, self.second = self.store.ranges

    def pass_ms(self, milliseconds: int) -> None:
        """Let time pass."""
        self.present.move_to(self.present.ns + milliseconds * NANOS_PER_MS)

    def begin_and_put(self, *names: str) -> Transaction:
        """A transaction that has written an intent at each of these keys."""
        txn = self.store.begin()
        for name in names:
            assert self.put(txn, name)
        return txn

    def put(self, txn: Transaction, name: str, value: bytes = b"v") -> bool:
        """Write one intent; false when somebody stands in the way."""
        return self.store.put(txn, self.store.ranges.holding(key(name)), [put(name, value)])

    def commit_one_phase(self, name: str, value: bytes = b"v") -> Timestamp:
        """Write one version in one phase, and return when."""
        txn = self.store.begin()
        assert self.store.commit_one_phase(txn, self.store.ranges.holding(key(name)), [put(name, value)])
        self.store.release(txn)
        return txn.write_timestamp

    def entries(self, range_: Range) -> list[Entry]:
        """Return what the range has written so far."""
        return self.entries_of(range_.id)

    def entries_of(self, range_id: RangeId) -> list[Entry]:
        """Return what the range of that id has written so far, whether or not it is there any more."""
        entries = (decode_entry(record.key, record.value) for record in self.sink.records)
        return [entry for entry in entries if getattr(entry, "range_id", None) == range_id]

    def ops(self, range_: Range) -> list[Op]:
        """The ops that the range has written so far."""
        return [op for entry in self.entries(range_) if isinstance(entry, Command) for op in entry.ops or ()]

    def scan(self, scan: Scan, options: StoreOptions = OPTIONS) -> tuple[RunningScan, int | None]:
        """Begin to answer a scan; also after how many nanoseconds it wants to go on, if at all."""
        running = RunningScan(self.store, options, scan, Random(1))
        return running, running.step()

    def chunks(self, range_: Range) -> list[ScanChunk]:
        """The answers to scans that the range has written so far."""
        return [entry for entry in self.entries(range_) if isinstance(entry, ScanChunk)]

    def breaches(self) -> list[Breach]:
        """Return what is wrong with the log so far."""
        return check_log(self.sink.records, OPTIONS.partitions)

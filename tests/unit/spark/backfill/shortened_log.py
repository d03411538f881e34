"""Logs that have lost their beginning, and hold what others had scanned."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Final

from sim.plan import OutcomeMix
from sim.workloads.random import RandomOptions, RandomTransactions
from tests.driven_sim import DrivenSim
from tests.logs import Record, eventful_store
from tests.unit.spark.backfill.scans_of_logs import SCAN, batch_of, complete_to, scan_of
from tidegate.hlc import ZERO, Timestamp
from tidegate.raftlog.decode import decode_entry
from tidegate.raftlog.entry import Command, Snapshot, Trigger
from tidegate.raftlog.request import Scan
from tidegate.rows.table_key import table_span
from tidegate.spans import Span
from tidegate.spark.backfill.log_entries import readable
from tidegate.spark.backfill.newest_rows import ScanAt
from tidegate.spark.backfill.scanned_keys import ScannedKeys, find_chunks

PARTITIONS: Final = 3
_CLOCKS_MS: Final = 1_000
_QUIET_MS: Final = 500
#: None is abandoned: nobody pushes here, and a scan waits for every intent.
_MIX: Final = OutcomeMix(restart=0.1, abort=0.08)


class ShortenedLog:
    """A log whose store was asked for scans on the way, and whose partitions begin near those.

    ``whole`` is what it was. Of a store that ``mutates`` data outside the op log no command can be read that
    says so.
    """

    def __init__(self, seed: int, *, mutates: bool = False) -> None:
        self.rng = rng = Random(f"{seed}:scans")
        workload = RandomTransactions(RandomOptions(tables=2, ranges=3, keys=12, outcomes=_MIX), seed)
        store = replace(
            eventful_store(PARTITIONS),
            descriptor_interval_ms=500,
            write_rate=50.0,
            split_every_ms=5_000,
            merge_every_ms=5_500,
        )
        self.sim = DrivenSim(workload, store, seed=seed)
        self.sim.run(rng.randint(150, 220))
        begins = [self._scan_all()]
        self.sim.run(rng.randint(20, 60))
        if rng.random() < 0.5:
            begins.append(self._scan_all())
            self.sim.run(rng.randint(5, 30))
        if mutates:
            self.sim.advance(_QUIET_MS)
            self.sim.mutate_somewhere(rng)
            self.sim.run(1)
            self.sim.advance(_QUIET_MS)
        self.sim.finish()
        self.whole = tuple(
            [_unread(record) if mutates else record for record in log] for log in self.sim.records()
        )
        self.partitions = [self._shortened(log, begins) for log in self.whole]
        self.tables = self.sim.tables
        self.history = self.sim.history
        self.keys = [table_span(table.id) for table in self.tables]

    def _shortened(self, log: list[Record], begins: list[int]) -> list[Record]:
        """The partition from a while before one of the scans on, or from soon after it."""
        first_ms = self.rng.choice(begins) // 10**6 + self.rng.choice((-3_000, -2_400, -1_800, -1_300))
        return [record for record in log if record.timestamp >= first_ms]

    def _scan_all(self) -> int:
        """Ask for the newest versions of all keys, range by range; seldom not of one of them."""
        began = self.sim.now_ns
        for number, range_ in enumerate(self.sim.ranges):
            if self.rng.random() < 0.97:
                self.sim.scan(
                    Scan(range_.id, number, range_.span, None, Timestamp(self.sim.now_ns), False, False)
                )
            self.sim.advance(self.rng.choice((0, 5, 40)))
        return began

    @property
    def told(self) -> list[Timestamp]:
        """The times at which data changed, as snapshots that are left tell of the tables' keys."""
        entries = [
            entry
            for number, records in enumerate(self.partitions)
            for _, entry in readable(PARTITIONS, batch_of(number, records))
        ]
        told = [entry.last_mutation for entry in entries if isinstance(entry, Snapshot)]
        return [each.time for each in told if each is not None]

    @property
    def scanned(self) -> list[ScannedKeys]:
        """The keys that the log tells were scanned since all partitions begin (see `scanned_keys`)."""
        shorter = [
            records
            for records, whole in zip(self.partitions, self.whole, strict=True)
            if len(records) < len(whole)
        ]
        firsts_ms = [records[0].timestamp for records in shorter]
        since = Timestamp((max(firsts_ms) + _CLOCKS_MS) * 10**6) if firsts_ms else ZERO
        return [
            ScannedKeys(Span(row["start"], row["end"]), Timestamp(row["wall"], row["logical"]))
            for number, records in enumerate(self.partitions)
            for batch in find_chunks(PARTITIONS, self.keys, [batch_of(number, records)])
            for row in batch.to_pylist()
            if Timestamp(row["wall"], row["logical"]) > since
        ]

    def complete_above(self, base: Timestamp) -> Timestamp:
        """Return how far a survey comes that begins at ``base``."""
        return complete_to(self, self.partitions, base)

    def scan(self, start: Timestamp, base: Timestamp) -> ScanAt:
        return replace(scan_of(self, SCAN, start), base=base)


def _unread(record: Record) -> Record:
    """The record; a command that changed data outside the op log cannot be read."""
    entry = decode_entry(record.key, record.value)
    mutates = isinstance(entry, Command) and entry.trigger in (Trigger.ADD_SSTABLE, Trigger.HISTORY_MUTATION)
    return record._replace(value=b"\xff\xff") if mutates else record

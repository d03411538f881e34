"""Random logs while feeds miss versions: they begin late, with a scan or at a cursor, and their sinks stall.

Scans are answered out of the requests of the steps, now and then in several chunks, late, or never. What they
bring is random: both processors are given the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any, Final

from tests.hand_log import at
from tests.unit.kernel.histories import Form, Lockstep, Table, damaged, feed_on
from tests.unit.kernel.log_histories import Source
from tidegate.changefeed.definition.feed import FeedId
from tidegate.changefeed.definition.options import InitialScan
from tidegate.changefeed.lifecycle.control import Activate
from tidegate.hlc import ZERO, Timestamp
from tidegate.kernel.kernel_mode import KernelMode
from tidegate.kernel.partition_kernel import kernels_for
from tidegate.processor.batch import StepResult
from tidegate.processor.config import ProcessorConfig
from tidegate.processor.processor import PartitionProcessor
from tidegate.raftlog.entry import KeyValue
from tidegate.raftlog.request import Scan
from tidegate.rows.value_frame import CHECKSUM_SIZE, seal
from tidegate.spans import Span

_FEEDS: Final = 4


class GapLockstep(Lockstep):
    """Two processors, the log that both read, and the feeds that come and fall behind."""

    def __init__(self, mode: KernelMode = KernelMode.ON) -> None:
        super().__init__(mode)
        self._python = PartitionProcessor(0, 1, ProcessorConfig(detachable=True, kernel=None))
        self._native = PartitionProcessor(0, 1, ProcessorConfig(detachable=True, kernel=kernels_for(mode)))
        _write_few(self._native)
        self._uncommitted: tuple[list[StepResult], list[StepResult]] = ([], [])
        self._asked: list[Scan] = []
        self._read = 0
        self._messages = 0

    def run_seed(self, seed: int, steps: int = 60) -> None:
        """Step the history of a seed. Fails at the first step whose results differ in anything."""
        random = Random(seed)
        source = Source(random)
        self._begin(random, source, 0)
        for _ in range(steps):
            for _ in range(random.choice((0, 2, 9, 30))):
                source.entry()
            self._answer(random, source)
            self._befall(random, source)
            self._step(source, random.choice((3, 20, 1000)))

    def run_scans(self, seed: int, form: Form | None = None) -> None:
        """Have feeds begin with scans that find many rows, of tables that change. No live row comes.

        A live row of these logs fails each feed that shows the row before.
        """
        random = Random(seed)
        source = Source(random, form)
        source.seconds = 50.0
        for number in range(_FEEDS):
            self._begin(random, source, number, scans=True)
            self._alter(random, source)
            for _ in range(5):
                for one in source.ranges:
                    one.hand.heartbeat(source.seconds, one.hand.index)
                self._step(source, 1000)
                self._answer(random, source, (3, 12, 40), late=0.1)

    def _alter(self, random: Random, source: Source) -> None:
        source.seconds += 3
        if random.random() < 0.5:
            table = random.choice(source.tables)
            table.alter(random, at(source.seconds - random.choice((0, 0, 40))))
            source.log.describe(table.hand)

    def _step(self, source: Source, size: int) -> None:
        records = source.log.partitions[0][self._read :]
        for first in range(0, len(records) or 1, size):
            batch = records[first : first + size]
            self._same("step", batch)
        self._read += len(records)

    def _befall(self, random: Random, source: Source) -> None:
        what = random.random()
        if what < 0.15 and self._messages < _FEEDS:
            self._begin(random, source, self._messages)
        elif what < 0.5:
            self._strike(random, FeedId(f"feed-{random.randrange(_FEEDS)}"))
        if random.random() < 0.3:
            self._commit()

    def _begin(self, random: Random, source: Source, number: int, *, scans: bool = False) -> None:
        feed = feed_on(random, source.tables, f"feed-{number}")
        self._control(number, _with_gaps(random, feed, random.uniform(0.25 if scans else 0.0, 1.0)))
        self._messages = number + 1

    def _strike(self, random: Random, feed_id: FeedId) -> None:
        """Have the sink of a feed fall behind, or take rows again."""
        one = self._python
        if feed_id not in one.detached:
            if one.is_active(feed_id) and random.random() < 0.4:
                self._same("detach", feed_id, uncommitted=True)
        elif random.random() < 0.3:
            self._same("stall", feed_id)
        elif one.is_spooling(feed_id) and random.random() < 0.5:
            self._same("attach", feed_id)
        else:
            self._same("resume", feed_id)

    def _commit(self) -> None:
        serial = self._uncommitted[0][-1].serial if self._uncommitted[0] else None
        for one, results in zip((self._python, self._native), self._uncommitted, strict=True):
            if serial is not None:
                one.committed(serial)
            results.clear()

    def _same(self, call: str, *arguments: Any, uncommitted: bool = False) -> None:
        """Call both processors; require equal results, and keep what they ask for."""
        results = []
        for one, before in zip((self._python, self._native), self._uncommitted, strict=True):
            more = (before,) if uncommitted else ()
            results.append(getattr(one, call)(*arguments, *more))
            before.append(results[-1])
        self._require_equal(*results)
        self._asked += [request for request in results[0].requests if isinstance(request, Scan)]

    def _answer(
        self, random: Random, source: Source, sizes: Sequence[int] = (0, 1, 5), late: float = 0.4
    ) -> None:
        asked, self._asked = self._asked, []
        for scan in asked:
            hand = next((each for each in source.ranges if each.hand.id == scan.range_id), None)
            if hand is None or random.random() < 0.1:
                continue  # it is asked for again
            if random.random() < late:
                self._asked.append(scan)  # later
                continue
            keys = sorted(hand.table.pair(random) for _ in range(random.choice(sizes)))
            rows = [
                _found(random, hand.table, key, value, scan.upto)
                for key, value in keys
                if scan.span.contains(key)
            ]
            rows = [row for row in rows if (scan.after or ZERO) < row.timestamp <= scan.upto]
            if rows and random.random() < 0.4:
                middle = rows[0].key + b"\x00"
                hand.hand.scanned(scan, rows[0], span=Span(scan.span.start, middle), last=False)
                hand.hand.scanned(scan, *rows[1:], span=Span(middle, scan.span.end))
            else:
                hand.hand.scanned(scan, *rows)


def _write_few(processor: PartitionProcessor) -> None:
    """Have kernels write scans of any size: those of these histories are small."""
    kernel = processor._state.kernel
    if kernel is not None:
        kernel.of_feeds.least = 1


def _found(random: Random, table: Table, key: bytes, value: bytes, upto: Timestamp) -> KeyValue:
    """A version that a scan finds: now and then a deletion, a damaged one, or one that is to be omitted."""
    what = random.random()
    value = b"" if what < 0.1 else damaged(random, value) if what < 0.11 else value
    replaced = random.choice((None, b"", table.pair(random)[1], damaged(random, value)))
    if replaced is None or random.random() < 0.6:
        replaced = b""
    elif replaced:
        replaced = seal(key, replaced[CHECKSUM_SIZE:])
    time = random.choice((upto, upto.prev(), Timestamp(upto.wall // 2)))
    return KeyValue(key, time, value, replaced, random.random() < 0.1)


def _with_gaps(random: Random, feed: Activate, what: float) -> Activate:
    """The feed, or one like it that begins with a scan or at a cursor."""
    if what < 0.25:
        return feed
    options, start = feed.definition.options, feed.start
    if what < 0.5:
        options = replace(options, cursor=start)
    else:
        options = replace(options, initial_scan=InitialScan.ONLY if what > 0.95 else InitialScan.YES)
    return replace(feed, definition=replace(feed.definition, options=options))

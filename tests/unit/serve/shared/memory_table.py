"""A shared table over records in memory: its reader's thread is the real one, its topic a test's list."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.unit.subscribe.consumer_run import DECODERS, plan_of
from tests.unit.subscribe.gate.memory_spill import MemorySpill
from tests.unit.subscribe.topic_histories import RELATION, Commit, TopicHistory, marker_record, record_bytes
from tidegate.hlc import ZERO, Timestamp
from tidegate.serve.kept_memory import KeptMemory
from tidegate.serve.shared.shared_stream import SharedStream
from tidegate.serve.shared.shared_table import SharedTable
from tidegate.serve.shared.snapshot_chunks import SnapshotSizes
from tidegate.serve.shared.table_reader import TableReader
from tidegate.serve.shared.table_rows import MemoryLimits, open_table_rows
from tidegate.serve.stream_source import ShownType, StreamColumns
from tidegate.serve.turn_threads import TurnThreads
from tidegate.subscribe.changes.table_changes import TableFollower
from tidegate.subscribe.client.consumer_state import ConsumerState
from tidegate.subscribe.client.table_contents import TableContents
from tidegate.subscribe.figures import SubscriptionFigures
from tidegate.subscribe.gate.feed_record import FeedPartition, FeedRecord
from tidegate.subscribe.gate.row_gate import GateOpening, GateStart, RowGate
from tidegate.subscribe.gate.spilled_rows import Spill
from tidegate.subscribe.outputs.dialect import Dialect
from tidegate.subscribe.subscription import SubscriptionBatch
from tidegate.subscribe.updates.update import RowValues

PLACE = FeedPartition("accounts", 0)


def one_a_time(walls: Sequence[int]) -> TopicHistory:
    """Return a history in which an account's balance is the time at each time, and a marker follows."""
    commits: list[Commit] = []
    records: list[tuple[FeedPartition, FeedRecord]] = []
    for wall in walls:
        before = (1, commits[-1].time.wall, "") if commits else None
        commits.append(Commit(Timestamp(wall), 1, (1, wall, ""), before))
        records.append((PLACE, FeedRecord(len(records), *record_bytes(commits[-1]))))
        records.append((PLACE, marker_record(len(records), Timestamp(wall))))
    return TopicHistory(tuple(commits), (PLACE,), tuple(records))


def at_each_time(walls: Sequence[int]) -> TopicHistory:
    """Return a history in which an account comes at each time; a marker is behind the first, and one behind
    all."""
    commits = [Commit(Timestamp(wall), wall, (wall, wall, "a" * 300), None) for wall in walls]
    records = [(PLACE, FeedRecord(2 * at, *record_bytes(each))) for at, each in enumerate(commits)]
    records.insert(1, (PLACE, marker_record(1, Timestamp(walls[0]))))
    records.append((PLACE, marker_record(2 * len(commits), Timestamp(walls[-1]))))
    return TopicHistory(tuple(commits), (PLACE,), tuple(records))


def keys_at_one(count: int, note: str = "a") -> TopicHistory:
    """Return a history of so many keys that come at the time 1; then one changes at each time from 2 to 9."""
    commits = [Commit(Timestamp(1), key, (key, 0, note), None) for key in range(count)]
    commits += [Commit(Timestamp(wall), 0, (0, wall, "a"), (0, 0, "a")) for wall in range(2, 10)]
    place, records = FeedPartition("accounts", 0), []
    for at, commit in enumerate(commits):
        records.append((place, FeedRecord(2 * at, *record_bytes(commit))))
        if at >= count - 1:
            records.append((place, marker_record(2 * at + 1, commit.time)))
    return TopicHistory(tuple(commits), (place,), tuple(records))


class MemorySource:
    """Gives the records of a history to a gate, up to where a test lets it.

    Attributes:
        closed: whether the reader has let go of it.
        failure: an error that the next read raises.
        others: an error that is raised when it is asked whether the topics are still the same.
        succeeded: whether its feed has: nothing follows what was let.
    """

    def __init__(
        self, history: TopicHistory, start: GateStart | None = None, spill: Spill | None = None
    ) -> None:
        self._records = history.records
        self.chunks = spill
        self._gate = RowGate(DECODERS, history.partitions, start, spill=spill)
        self._at = self._until = 0
        self._more = threading.Condition()
        self.closed = False
        self.failure: BaseException | None = None
        self.others: BaseException | None = None
        self.succeeded = False

    def let(self, count: int) -> None:
        """Let so many more records be read."""
        with self._more:
            self._until = min(self._until + count, len(self._records))
            self._more.notify_all()

    def let_to(self, value: bytes | None) -> None:
        """Let all be read up to the record with a value."""
        at = next(at for at, (_, record) in enumerate(self._records) if record.value == value)
        self.let(at + 1 - self._until)

    def fail(self, error: BaseException) -> None:
        with self._more:
            self.failure = error
            self._more.notify_all()

    def open(self) -> GateOpening | None:
        return self._gate.open()

    def is_same(self, timeout_s: float) -> bool:
        if self.others is not None:
            raise self.others
        return True

    def has_ended(self, *, is_begun: bool) -> bool:
        return self.succeeded and self._at == self._until and self._gate.minimum <= self._gate.delivered

    def read(self, timeout_s: float) -> None:
        with self._more:
            self._more.wait_for(lambda: self._at < self._until or self.failure, min(timeout_s, 0.01))
            if self._at == self._until:
                if self.failure is not None:
                    raise self.failure
                return
            place, record = self._records[self._at]
            self._at += 1
        self._pass_on(place, record)

    def _pass_on(self, place: FeedPartition, record: FeedRecord) -> None:
        self._gate.add_record(place, record)

    def offsets(self) -> dict[FeedPartition, int]:
        return self._gate.offsets()

    def figures(self, output: str) -> SubscriptionFigures:
        return SubscriptionFigures(output, delivered=self._gate.delivered)

    def close(self) -> None:
        self.closed = True


MUCH = MemoryLimits(1_000, 1 << 30)


class MemoryTable:
    """A shared table of a history, its source, and streams of it."""

    def __init__(
        self,
        history: TopicHistory,
        as_of: Timestamp,
        log_bytes: int,
        most: MemoryLimits,
        memory_bytes: int | None = None,
        sizes: SnapshotSizes | None = None,
        data: Path | None = None,
        own_bytes: int = 1 << 40,
        threads: ThreadPoolExecutor | None = None,
    ) -> None:
        self.threads = threads or ThreadPoolExecutor(2)
        spill = None if memory_bytes is None else Spill(MemorySpill(), memory_bytes, least_opening_bytes=0)
        self.source = MemorySource(history, GateStart(parts_up_to=ZERO if spill is None else as_of), spill)
        self.kept_memory = KeptMemory(own_bytes)
        whole = TurnThreads(1, self.threads.turns, "w") if isinstance(self.threads, TurnThreads) else None
        self.shared = SharedTable("feed", as_of, log_bytes, self.threads, self.kept_memory, sizes, whole)
        rows = open_table_rows(data, "feed", RELATION, most)
        follower = TableFollower(RELATION, rows, as_of, spill)
        shared = self.shared
        self.reader = TableReader(self.source, follower, rows, shared.publish, shared.fail, shared.finish)
        self.shared.read(self.reader)
        self.thread = threading.Thread(target=self.reader.run)
        self.streams: list[SharedStream] = []
        self.thread.start()

    def stream(self, text: str, dialect: Dialect = Dialect.TIDEGATE, **options: Any) -> SharedStream:
        plan = plan_of(text, dialect)
        columns = StreamColumns(plan.shape.header, (ShownType.TEXT,) * len(plan.shape.header))
        if isinstance(self.threads, TurnThreads):
            options.setdefault("share", self.kept_memory.share(self.threads.turns.pause))
        stream = SharedStream(self.shared, plan, columns, self.threads, self.streams.remove, **options)
        self.streams.append(stream)
        return stream


@asynccontextmanager
async def memory_table(
    history: TopicHistory,
    as_of: Timestamp = ZERO,
    log_bytes: int = 10_000_000,
    most: MemoryLimits = MUCH,
    memory_bytes: int | None = None,
    sizes: SnapshotSizes | None = None,
    data: Path | None = None,
    own_bytes: int = 1 << 40,
    threads: ThreadPoolExecutor | None = None,
) -> AsyncIterator[MemoryTable]:
    """A table that is read while the context lasts.

    With ``memory_bytes`` its first snapshot comes in parts, and what has no room waits in a store. ``sizes``
    say which snapshots of streams come in chunks. ``data`` is a directory for its rows.
    ``own_bytes`` is what streams may keep by themselves. ``threads`` make its batches.
    """
    table = MemoryTable(history, as_of, log_bytes, most, memory_bytes, sizes, data, own_bytes, threads)
    try:
        yield table
    finally:
        for stream in list(table.streams):
            await stream.close()
        table.shared.stop()
        await asyncio.to_thread(table.thread.join)
        table.threads.shutdown()
    assert table.source.closed


class Follower:
    """A client of a stream with PROGRESS: what it holds, and the table at each frontier that it was told."""

    def __init__(self, stream: SharedStream, *, resumed: bool = False) -> None:
        shape = stream._plan.shape
        self.stream = stream
        self.state = ConsumerState(stream.header, resumed=resumed)
        self.contents = TableContents(len(shape.key), len(shape.rest))
        self.batches: list[SubscriptionBatch] = []
        self.states: list[tuple[Timestamp, list[RowValues]]] = []

    async def next_batch(self) -> SubscriptionBatch | None:
        batch = await self.stream.next()
        if batch is not None:
            self.batches.append(batch)
            for row in batch.rows:
                released = self.state.push(row)
                if released is not None:
                    assert released.frontier is not None
                    self.contents.fold(released)
                    self.states.append((released.frontier, self.contents.rows()))
        return batch

    async def take_to(self, end: Timestamp) -> None:
        """Take until all up to ``end`` has come."""
        while not self.batches or self.batches[-1].frontier <= end:
            assert await self.next_batch() is not None


async def read_to(table: MemoryTable, wall: int) -> None:
    """Let the reader go on to the marker at ``wall``."""
    table.source.let_to(marker_record(0, Timestamp(wall)).value)
    while table.shared.frontier <= Timestamp(wall):  # noqa: ASYNC110 - the reader's thread tells nobody
        await asyncio.sleep(0.0005)

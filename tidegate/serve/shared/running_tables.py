"""The tables that are read for their subscribers.

A table is read from its first subscriber on, until some time after its last one is gone.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Hashable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from tidegate.client.kafka.topic_admin import open_admin
from tidegate.client.subscribe.ended_feeds import SharedJobs
from tidegate.client.subscribe.feed_catalog import SubscribableTable
from tidegate.client.subscribe.feed_gate import FeedGate
from tidegate.client.subscribe.feed_history import FeedHistory
from tidegate.client.subscribe.spill_files import SpillSettings
from tidegate.errors import HistoryLost
from tidegate.hlc import NANOS_PER_SECOND, ZERO, Timestamp
from tidegate.serve.kept_memory import KeptMemory
from tidegate.serve.shared.shared_table import SharedTable
from tidegate.serve.shared.snapshot_chunks import SnapshotSizes
from tidegate.serve.shared.table_reader import TableReader
from tidegate.serve.shared.table_rows import MemoryLimits, TableRows, open_table_rows
from tidegate.subscribe.changes.table_changes import TableFollower
from tidegate.subscribe.client.resume_token import ResumeToken
from tidegate.subscribe.gate.feed_record import FeedPartition
from tidegate.subscribe.gate.row_gate import GateStart
from tidegate.subscribe.plan import SubscribePlan

#: A reader begins for its first subscriber. If that subscriber has a token from the last ten minutes, the
#: reader begins a minute before the token. When one server has replaced another, its clients come with tokens
#: of about the same time.
_RECENT_NS: Final = 600 * NANOS_PER_SECOND
_BEFORE_NS: Final = 60 * NANOS_PER_SECOND


@dataclass(frozen=True, slots=True)
class SharedOptions:
    """The bounds and the place of tables that are read.

    Attributes:
        log_bytes: bytes of changes that each table keeps for slower subscribers.
        memory: bounds of a table's rows in memory.
        data: a directory for rows by key; ``None`` if they are kept in memory.
        linger_s: how long a table is still read after its last subscriber is gone.
        spill: memory and directory for rows that wait in a reader.
        kept_memory: the memory that subscribers of all tables take for themselves.
    """

    log_bytes: int
    memory: MemoryLimits
    kept_memory: KeptMemory
    data: Path | None = None
    linger_s: float = 60.0
    spill: SpillSettings | None = None


class RunningTables:
    """The tables of one application by their feeds and topics. It has to be used in one event loop."""

    def __init__(
        self,
        options: SharedOptions,
        threads: Executor,
        whole_threads: Executor | None = None,
        jobs: SharedJobs | None = None,
    ) -> None:
        """``threads`` make batches, and never wait for Kafka. ``whole_threads`` make the batches that cannot
        be made in parts. ``jobs`` reads the jobs topic for all readers.
        """
        self._options = options
        self._jobs = jobs
        self._threads = threads
        self._whole_threads = whole_threads
        self._running: dict[Hashable, _Running] = {}
        self._beginning: dict[Hashable, asyncio.Task[_Running | None]] = {}
        #: The last thread of each place. It may not have ended yet.
        self._last: dict[Hashable, threading.Thread] = {}
        #: The timer of each table without subscribers.
        self._timers: dict[SharedTable, asyncio.TimerHandle] = {}
        #: The number of readers that were started.
        self.started = 0

    def __iter__(self) -> Iterator[tuple[SubscribableTable, SharedTable]]:
        """Iterate over the tables that are read now."""
        return iter([(each.table, each.shared) for each in self._running.values()])

    def running(self, table: SubscribableTable) -> SharedTable | None:
        """Return a table that is read already, with one subscriber more; ``None`` if it is not read."""
        found = self._running.get(_place(table))
        if found is None or found.shared.ended:
            return None
        found.shared.subscribers += 1
        self._cancel_timer(found.shared)
        return found.shared

    async def acquire(
        self, table: SubscribableTable, plan: SubscribePlan, token: ResumeToken | None = None
    ) -> SharedTable | None:
        """Return the table with one subscriber more, and begin to read it if needed.

        Return ``None`` if the table has no snapshot.

        Raises as `FeedHistory` does.
        """
        found = self.running(table)
        if found is not None:
            return found
        place = _place(table)
        task = self._beginning.get(place)
        if task is None:
            task = asyncio.ensure_future(self._begin(table, plan, token))
            self._beginning[place] = task
            task.add_done_callback(lambda _: self._beginning.pop(place, None))
        await asyncio.shield(task)
        return self.running(table)

    def release(self, shared: SharedTable) -> None:
        """Say that a subscriber is gone."""
        shared.subscribers -= 1
        if shared.subscribers == 0:
            self._end_later(shared)

    async def close(self) -> None:
        """End all readers."""
        for task in list(self._beginning.values()):
            await asyncio.wait({task})
        for running in list(self._running.values()):
            self._cancel_timer(running.shared)
            running.shared.stop()
        for thread in list(self._last.values()):
            await asyncio.to_thread(thread.join)
        self._running.clear()
        self._last.clear()
        if self._jobs is not None:
            await asyncio.to_thread(self._jobs.close)

    async def _begin(
        self, table: SubscribableTable, plan: SubscribePlan, token: ResumeToken | None
    ) -> _Running | None:
        options = self._options
        last = self._last.pop(_place(table), None)
        if last is not None and options.data is not None:
            await asyncio.to_thread(last.join)  # the last thread uses the directory until it ends
        opening = replace(plan, snapshot=True, up_to=None, at_least=True, as_of=_begin_of(token))
        prepared = await _in_own_thread(lambda: _prepare(table, opening, options, self._jobs))
        if prepared is None:
            return None
        sizes = SnapshotSizes(whole_bytes=options.memory.bytes)
        shared = SharedTable(
            prepared.source,
            prepared.as_of,
            options.log_bytes,
            self._threads,
            options.kept_memory,
            sizes,
            self._whole_threads,
        )
        reader = TableReader(
            prepared.gate,
            TableFollower(table.relation, prepared.rows, prepared.as_of, prepared.gate.chunks),
            prepared.rows,
            shared.publish,
            shared.fail,
            shared.finish,
        )
        shared.read(reader)
        thread = threading.Thread(target=reader.run, name=f"table {table.relation.name}", daemon=True)
        running = self._running[_place(table)] = _Running(table, shared, thread)
        self._last[_place(table)] = thread
        thread.start()
        self.started += 1
        self._end_later(shared)  # its first subscriber may be gone already
        return running

    def _end_later(self, shared: SharedTable) -> None:
        """End a table unless a subscriber comes within ``linger_s`` from now."""
        self._cancel_timer(shared)
        loop = asyncio.get_running_loop()
        self._timers[shared] = loop.call_later(self._options.linger_s, self._end_if_unused, shared)

    def _cancel_timer(self, shared: SharedTable) -> None:
        timer = self._timers.pop(shared, None)
        if timer is not None:
            timer.cancel()

    def _end_if_unused(self, shared: SharedTable) -> None:
        self._timers.pop(shared, None)
        for place, running in list(self._running.items()):
            if running.shared is shared and shared.subscribers == 0:
                shared.stop()
                del self._running[place]


@dataclass(frozen=True, slots=True)
class _Running:
    """A table that is read."""

    table: SubscribableTable
    shared: SharedTable
    thread: threading.Thread


@dataclass(frozen=True, slots=True)
class _Prepared:
    """What a reader begins with: its source, its AS OF, its gate and its rows."""

    source: str
    as_of: Timestamp
    gate: FeedGate
    rows: TableRows


async def _in_own_thread(call: Callable[[], _Prepared | None]) -> _Prepared | None:
    """Run ``call`` in a new thread: a cluster that does not answer delays only its own tables."""
    thread = ThreadPoolExecutor(1, "table begins")
    try:
        return await asyncio.get_running_loop().run_in_executor(thread, call)
    finally:
        thread.shutdown(wait=False)


def _prepare(
    table: SubscribableTable, plan: SubscribePlan, options: SharedOptions, jobs: SharedJobs | None
) -> _Prepared | None:
    """Ask Kafka, and open what a reader begins with. Returns ``None`` for a topic without a snapshot."""
    history = FeedHistory.now(table)
    topics = sorted({place.topic for place in (*history.rows, *history.markers)})
    ids = open_admin(table.connection, table.connection.timeout_s).ids(topics)
    source = f"{table.feed.feed_id}/{ids[table.target.topic]}"
    try:
        as_of = _choose_as_of(history, plan)
    except HistoryLost:
        return None
    starts: dict[FeedPartition, int] = history.starts(as_of, from_beginning=True)
    rows = open_table_rows(options.data, source, table.relation, options.memory)
    try:
        start = GateStart(ZERO, starts, parts_up_to=as_of)
        gate = FeedGate(table.connection, [history], ids, start, options.spill, jobs)
    except BaseException:
        rows.close()
        raise
    return _Prepared(source, as_of, gate, rows)


def _choose_as_of(history: FeedHistory, plan: SubscribePlan) -> Timestamp:
    """Return the AS OF of the plan, or the present. Raises ``HistoryLost`` for a topic without a snapshot."""
    present = history.choose_as_of(replace(plan, as_of=None, at_least=False), from_beginning=True)
    # A client may send any token. For a token of a time that has not come, all other clients would have to
    # wait.
    if plan.as_of is None or plan.as_of >= present:
        return present
    return history.choose_as_of(plan, from_beginning=True)


def _begin_of(token: ResumeToken | None) -> Timestamp | None:
    """Return the timestamp at which the first snapshot has to be complete; ``None`` for the present."""
    if token is None or token.as_of.wall < time.time_ns() - _RECENT_NS:
        return None
    return Timestamp(max(token.as_of.wall - _BEFORE_NS, 0))


def _place(table: SubscribableTable) -> Hashable:
    """Return the key of the reader that can serve a table: its feed, its topic and its columns.

    A table whose columns have changed needs another reader, even if only their types have changed.
    """
    relation = table.relation
    columns = (relation.columns, relation.primary_key, relation.added, relation.removed)
    return table.feed.feed_id, table.target, columns, relation.types, relation.exact_from

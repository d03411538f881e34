"""Subscriptions of the feeds of one application, for the server.

A table is read once for all of its subscribers (`shared`). A subscription that the shared reader cannot
serve has a reader of its own (`feed_stream`): one that begins in the past, or one of a topic without a
snapshot.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, Self, TypeAlias, TypeVar

from tidegate.client.kafka.connection import KafkaConnection
from tidegate.client.subscribe import LiveSubscription, SpillSettings
from tidegate.client.subscribe.ended_feeds import JobsPlace, SharedJobs
from tidegate.client.subscribe.feed_catalog import FeedCatalog, SubscribableTable
from tidegate.client.table_descriptors import LogDescriptors
from tidegate.errors import InputError, RetryError
from tidegate.serve.feed_stream import FeedStream
from tidegate.serve.kept_memory import KeptMemory, KeptShare
from tidegate.serve.known_feeds import FeedsSeen, KnownFeeds
from tidegate.serve.limits import ServeLimits
from tidegate.serve.metrics import ServeCounts, TableFigures, metrics_text
from tidegate.serve.shared.running_tables import RunningTables, SharedOptions
from tidegate.serve.shared.shared_stream import SharedStream
from tidegate.serve.shared.shared_table import SharedTable
from tidegate.serve.shared.starts import resume_of, start_of
from tidegate.serve.shared.table_rows import MemoryLimits
from tidegate.serve.shown_types import stream_columns
from tidegate.serve.statement_threads import StatementThreads
from tidegate.serve.stream_source import StreamColumns, SubscriptionStream
from tidegate.serve.turn_threads import Turns, TurnThreads
from tidegate.subscribe.client.resume_token import ResumeToken, parse_token, read_token
from tidegate.subscribe.outputs.dialect import Dialect
from tidegate.subscribe.plan import SubscribePlan, plan_subscribe
from tidegate.subscribe.statement.statement import SubscribeStatement
from tidegate.subscribe.statement.switches import ALL_ON, SubscribeSwitches
from tidegate.subscribe.statement_rows import StatementRows
from tidegate.subscribe.subscription import needs_key_rows
from tidegate.subscribe.updates.relation import Relations

#: How many pieces of work may be begun at the same time: each makes batches or plans a statement. Of all
#: pieces that are begun, only ``_WORKING`` run at the same time; the others wait for their turn.
_BEGUN: Final = 16
_WORKING: Final = 4
#: How many batches that cannot be made in parts may be begun beside these. Each may take long.
_WHOLE_BEGUN: Final = 8
_Answer = TypeVar("_Answer")
_Stream: TypeAlias = FeedStream | SharedStream


class FeedSubscriptions:
    """All tables of an application's feeds. It has to be made and used in one event loop.

    ``connection`` is to the workers' cluster; ``topic_prefix`` is that of the log. ``data`` is a directory
    for the rows of tables; without it the rows are in memory. ``linger_s`` is for how many seconds a table is
    still read after its last subscriber is gone. ``spill`` says how much memory each reader may use for rows
    that wait, and where on disk further rows go. ``switches`` say which outputs statements may ask for.
    """

    def __init__(
        self,
        connection: KafkaConnection,
        app_id: str,
        topic_prefix: str = "",
        limits: ServeLimits | None = None,
        *,
        data: Path | None = None,
        linger_s: float = 60.0,
        spill: SpillSettings | None = None,
        switches: SubscribeSwitches = ALL_ON,
    ) -> None:
        self._connection = connection
        self._app_id = app_id
        self._topic_prefix = topic_prefix
        self._limits = limits = limits or ServeLimits()
        self._spill = spill
        self._log = LogDescriptors(connection, f"{topic_prefix}raftlog")
        self._feeds = KnownFeeds(self._read)
        self._streams: set[_Stream] = set()
        self._opening = 0
        # No work in these threads waits for Kafka, so a cluster that does not answer holds nobody up.
        self._turns = turns = Turns(_WORKING)
        self._threads = TurnThreads(_BEGUN, turns, "batches")
        self._whole_threads = TurnThreads(_WHOLE_BEGUN, turns, "whole batches")
        # A thread of its own for each reader that waits for Kafka.
        self._own_threads = ThreadPoolExecutor(limits.own_readers, "subscription")
        self._statements = StatementThreads()
        self._own_readers = 0
        memory = MemoryLimits(limits.table_rows, limits.table_bytes)
        self._kept_memory = KeptMemory(limits.own_bytes)
        options = SharedOptions(limits.log_bytes, memory, self._kept_memory, data, linger_s, spill)
        jobs = SharedJobs(JobsPlace(connection, app_id))
        self.tables = RunningTables(options, self._threads, self._whole_threads, jobs)
        self.counts = ServeCounts()
        self.switches = switches

    async def parse(self, text: str) -> SubscribeStatement:
        """See ``Subscriptions``."""
        return await self._statements.parse(text)

    async def describe(
        self, statement: SubscribeStatement | str, *, dialect: Dialect = Dialect.TIDEGATE
    ) -> StreamColumns:
        """See ``Subscriptions``."""
        return stream_columns((await self._planned(statement, dialect)).plan)

    async def open(
        self,
        statement: SubscribeStatement | str,
        *,
        token: str = "",
        dialect: Dialect = Dialect.TIDEGATE,
    ) -> SubscriptionStream:
        """See ``Subscriptions``. Raises ``RetryError`` where too many streams are open."""
        if len(self._streams) + self._opening >= self._limits.streams:
            raise RetryError(
                f"{self._limits.streams} subscriptions are open, and no more are served; try later"
            )
        self._opening += 1
        try:
            return await self._opened(statement, token, dialect)
        finally:
            self._opening -= 1

    async def _opened(
        self, statement: SubscribeStatement | str, token: str, dialect: Dialect
    ) -> SubscriptionStream:
        planned = await self._planned(statement, dialect)
        shared = await self._shared(planned, parse_token(token) if token else None)
        if shared is not None:
            stream = await self._shared_stream(shared, planned, token)
            if stream is not None:
                return stream
            self.tables.release(shared)
        return await self._own_stream(planned, token)

    async def relations(self) -> Relations:
        """See ``Subscriptions``."""
        return (await self._feeds.now()).relations

    async def refresh(self) -> None:
        """Read anew which feeds there are. Raises as ``FeedCatalog`` does."""
        await self._feeds.refresh()

    def metrics(self) -> str:
        """Return the server's metrics in the text format of Prometheus."""
        own = sum(isinstance(stream, FeedStream) for stream in self._streams)
        tables = [
            TableFigures(
                str(table.relation.name), table.feed.feed_id, each.subscribers, each.held_bytes, each.figures
            )
            for table, each in self.tables
            if not each.ended  # its figures do not change any more
        ]
        streams = {"own": own, "shared": len(self._streams) - own}
        readers = {"own": self._own_readers, "shared": len(tables)}
        return metrics_text(self.counts, streams, readers, tables, self._kept_memory.taken)

    async def close(self) -> None:
        """See ``Subscriptions``."""
        await self.tables.close()
        for stream in list(self._streams):
            await stream.close()
        self._statements.close()
        self._own_threads.shutdown(wait=False)
        self._feeds.close()
        self._threads.shutdown(wait=False)
        self._whole_threads.shutdown(wait=False)

    async def _shared(self, planned: _Planned, token: ResumeToken | None) -> SharedTable | None:
        """Return the shared table, with this subscriber counted. Return ``None`` if the subscription needs a
        reader of its own.

        A statement with UP TO, or one without a token and with an exact AS OF, can use a shared table only if
        that is read already. It does not start a shared reader.
        """
        plan = planned.plan
        if plan.up_to is not None or (plan.as_of is not None and not plan.at_least and token is None):
            return self.tables.running(planned.table)
        return await self.tables.acquire(planned.table, plan, token)

    async def _shared_stream(self, shared: SharedTable, planned: _Planned, token: str) -> SharedStream | None:
        """Return a stream of a shared table; ``None`` if the table's log lacks what the statement needs."""
        plan = planned.plan
        resumed = None
        try:
            share = self._kept_memory.share(self._turns.pause)
            shown_by = await self._in(self._threads, lambda: StatementRows(plan, shared.source, share))
            if token:
                resumed = read_token(token, shown_by.fingerprint)
                start = resume_of(shared, plan, resumed, stateful=shown_by.stateful)
            else:
                start = start_of(shared, plan, stateful=shown_by.stateful)
        except BaseException:
            self.tables.release(shared)
            raise
        if start is None:
            return None

        def closed(stream: SharedStream) -> None:
            self._streams.discard(stream)
            self.tables.release(shared)

        stream = SharedStream(
            shared,
            plan,
            stream_columns(plan),
            self._threads,
            closed,
            start=start.frontier,
            token=resumed,
            counts=self.counts,
            open_own=None if planned.needs_key_rows else partial(self._behind, planned),
            shown_by=shown_by,
            share=share,
        )
        self._streams.add(stream)
        return stream

    async def _own_stream(self, planned: _Planned, token: str) -> FeedStream:
        share = self._kept_memory.share()
        live = await self._live(planned, token, share)
        stream = FeedStream(
            live,
            stream_columns(planned.plan),
            self._own_threads,
            self._own_closed,
            live.opening,
            self.counts,
            share,
        )
        self._streams.add(stream)
        return stream

    async def _behind(self, planned: _Planned, token: ResumeToken) -> FeedStream:
        """Open a reader of its own for a stream that was too slow."""
        share = self._kept_memory.share()
        live = await self._live(planned, str(token), share)
        columns = stream_columns(planned.plan)
        return FeedStream(live, columns, self._own_threads, self._own_closed, share=share)

    async def _live(self, planned: _Planned, token: str, share: KeptShare) -> LiveSubscription:
        most = self._limits.own_readers
        if self._own_readers >= most:
            raise RetryError(f"{most} subscriptions have a reader of their own, and no more can; try later")
        self._own_readers += 1
        opening = asyncio.ensure_future(
            self._in(
                self._own_threads,
                lambda: LiveSubscription(
                    planned.table,
                    planned.plan,
                    token,
                    spill=self._spill,
                    snapshot_chunks=True,
                    share=share,
                ),
            )
        )
        try:
            return await asyncio.shield(opening)
        except BaseException:
            # When the client is gone, the thread still opens the subscription. It is closed afterwards.
            if opening.done():
                self._let_go(opening)
            else:
                opening.add_done_callback(self._let_go)
            raise

    def _let_go(self, opening: asyncio.Future[LiveSubscription]) -> None:
        self._own_readers -= 1
        if not opening.cancelled() and opening.exception() is None:
            asyncio.get_running_loop().run_in_executor(None, opening.result().close)

    def _own_closed(self, stream: FeedStream) -> None:
        self._own_readers -= 1
        self._streams.discard(stream)

    async def _planned(self, statement: SubscribeStatement | str, dialect: Dialect) -> _Planned:
        parsed = await self.parse(statement) if isinstance(statement, str) else statement
        asked = time.monotonic()
        seen = await self._feeds.now()
        try:
            return await self._planned_by(seen, parsed, dialect)
        except InputError:
            newer = await self._feeds.newer(asked)
            if newer is seen:
                raise
        return await self._planned_by(newer, parsed, dialect)

    async def _planned_by(self, seen: FeedsSeen, statement: SubscribeStatement, dialect: Dialect) -> _Planned:
        catalog = seen.catalog
        return await self._in(
            self._threads,
            lambda: _Planned.of(statement, catalog.table(statement), dialect, self.switches),
        )

    def _read(self) -> FeedCatalog:
        return FeedCatalog(self._connection, self._app_id, self._topic_prefix, self._log.look)

    @staticmethod
    async def _in(threads: ThreadPoolExecutor, call: Callable[[], _Answer]) -> _Answer:
        return await asyncio.get_running_loop().run_in_executor(threads, call)


@dataclass(frozen=True, slots=True)
class _Planned:
    """A statement that was planned, with the table that it is about.

    ``needs_key_rows`` says whether its subscription needs a table of rows by key.
    """

    table: SubscribableTable
    plan: SubscribePlan
    needs_key_rows: bool

    @classmethod
    def of(
        cls,
        statement: SubscribeStatement,
        table: SubscribableTable,
        dialect: Dialect,
        switches: SubscribeSwitches,
    ) -> Self:
        """Plan a statement. Call it in a thread: a statement of 64 KiB takes a tenth of a second."""
        plan = plan_subscribe(statement, Relations([table.relation]), time.time_ns(), dialect, switches)
        return cls(table, plan, needs_key_rows(plan, tells_before=table.tells_before))

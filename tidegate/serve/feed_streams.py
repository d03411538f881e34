"""Subscriptions of the feeds of one application, for the server: each stream reads Kafka in threads.

A stream that nobody asks for its next batch reads nothing: so a slow client holds back only itself.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final, TypeVar

from tidegate.client.kafka.connection import KafkaConnection
from tidegate.client.subscribe import LiveSubscription, SpillSettings
from tidegate.client.subscribe.feed_catalog import FeedCatalog, SubscribableTable
from tidegate.errors import RetryError
from tidegate.serve.shown_types import stream_columns
from tidegate.serve.stream_source import ShownType, StreamColumns
from tidegate.subscribe.outputs.dialect import Dialect
from tidegate.subscribe.plan import SubscribePlan, plan_subscribe
from tidegate.subscribe.statement.parser import parse_subscribe
from tidegate.subscribe.statement.statement import SubscribeStatement
from tidegate.subscribe.subscription import SubscriptionBatch
from tidegate.subscribe.updates.frontier import Frontier
from tidegate.subscribe.updates.relation import Relations

#: How old what is known of the feeds may be when a statement asks for a table.
_KNOWN_S: Final = 5.0
#: How long a thread waits for a batch at a time: a stream that is closed ends as late as that.
_POLL_S: Final = 0.5
_Answer = TypeVar("_Answer")


class FeedSubscriptions:
    """All tables of an application's feeds. It has to be made and used in one event loop.

    ``connection`` is to the workers' cluster; ``topic_prefix`` is that of the log. At most ``most_streams``
    are open at a time. ``spill`` is what each keeps of rows that wait.
    """

    def __init__(
        self,
        connection: KafkaConnection,
        app_id: str,
        topic_prefix: str = "",
        most_streams: int = 1_000,
        spill: SpillSettings | None = None,
    ) -> None:
        self._connection = connection
        self._app_id = app_id
        self._topic_prefix = topic_prefix
        self._most_streams = most_streams
        self._spill = spill
        self._catalog: FeedCatalog | None = None
        self._relations = Relations(())
        self._read_at = 0.0
        self._reading = asyncio.Lock()
        self._streams: set[FeedStream] = set()
        # A thread of its own for each stream that waits for Kafka, and some for those that begin.
        self._threads = ThreadPoolExecutor(most_streams + 4, "subscription")

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
    ) -> FeedStream:
        """See ``Subscriptions``. Raises ``RetryError`` where too many streams are open."""
        if len(self._streams) >= self._most_streams:
            raise RetryError(
                f"{self._most_streams} subscriptions are open, and no more are served; try later"
            )
        planned = await self._planned(statement, dialect)
        live = await self._in_thread(
            lambda: LiveSubscription(planned.table, planned.plan, token, spill=self._spill)
        )
        stream = FeedStream(live, stream_columns(planned.plan), self._threads, self._streams.discard)
        self._streams.add(stream)
        return stream

    def relations(self) -> Relations:
        """See ``Subscriptions``."""
        return self._relations

    async def refresh(self) -> None:
        """Read anew which feeds there are. Raises as ``FeedCatalog`` does."""
        await self._known(at_once=True)

    async def close(self) -> None:
        """See ``Subscriptions``."""
        for stream in list(self._streams):
            await stream.close()
        self._threads.shutdown(wait=False)

    async def _planned(self, statement: SubscribeStatement | str, dialect: Dialect) -> _Planned:
        parsed = parse_subscribe(statement) if isinstance(statement, str) else statement
        catalog = await self._known()
        table = await self._in_thread(lambda: catalog.table(parsed))
        plan = plan_subscribe(parsed, Relations([table.relation]), time.time_ns(), dialect)
        return _Planned(table, plan)

    async def _known(self, *, at_once: bool = False) -> FeedCatalog:
        async with self._reading:
            known = self._catalog
            if known is None or at_once or time.monotonic() > self._read_at + _KNOWN_S:
                known = await self._in_thread(self._read)
                self._catalog, self._read_at = known, time.monotonic()
            return known

    def _read(self) -> FeedCatalog:
        catalog = FeedCatalog(self._connection, self._app_id, self._topic_prefix)
        self._relations = catalog.relations()
        return catalog

    async def _in_thread(self, call: Callable[[], _Answer]) -> _Answer:
        return await asyncio.get_running_loop().run_in_executor(self._threads, call)


@dataclass(frozen=True, slots=True)
class _Planned:
    """A statement, with the table that it is about."""

    table: SubscribableTable
    plan: SubscribePlan


class FeedStream:
    """One open subscription: see ``SubscriptionStream``."""

    def __init__(
        self,
        live: LiveSubscription,
        columns: StreamColumns,
        threads: ThreadPoolExecutor,
        closed: Callable[[FeedStream], object],
    ) -> None:
        self._live = live
        self._columns = columns
        self._threads = threads
        self._closed = closed
        self._reading: asyncio.Future[SubscriptionBatch | None] | None = None
        self._is_closed = False
        opening = live.opening
        self._opening = (
            SubscriptionBatch(Frontier(live.as_of), opening, False, None, False) if opening else None
        )

    @property
    def header(self) -> tuple[str, ...]:
        """See ``SubscriptionStream``."""
        return self._columns.header

    @property
    def types(self) -> tuple[ShownType, ...]:
        """See ``SubscriptionStream``."""
        return self._columns.types

    async def next(self) -> SubscriptionBatch | None:
        """See ``SubscriptionStream``."""
        if self._opening is not None:
            opening, self._opening = self._opening, None
            return opening
        while not self._is_closed:
            # What a thread reads outlives a call that is cancelled: the next call gets it.
            if self._reading is None:
                loop = asyncio.get_running_loop()
                self._reading = loop.run_in_executor(self._threads, self._live.next, _POLL_S)
            reading = self._reading
            try:
                batch = await asyncio.shield(reading)
            except asyncio.CancelledError:
                raise
            except BaseException:
                self._reading = None
                raise
            self._reading = None
            if batch is not None or self._live.ended:
                return batch
        return None

    async def close(self) -> None:
        """See ``SubscriptionStream``. A thread that reads is waited for: nothing is closed under it."""
        if self._is_closed:
            return
        self._is_closed = True
        self._closed(self)
        if self._reading is not None:
            await asyncio.wait([self._reading])
        await asyncio.to_thread(self._live.close)

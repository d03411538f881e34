"""Subscriptions over topics in memory: another source behind the server's boundary, by the same core.

A test appends records; every open stream reads them from its own place. ``shared`` streams of one statement
get the same batch objects, as those of a source do that has one reader for a table.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Sequence
from random import Random
from typing import Any

from tests.unit.subscribe.topic_histories import Commit, marker_record, record_bytes
from tidegate.changefeed.definition.feed import TableName
from tidegate.changefeed.definition.options import Envelope
from tidegate.changefeed.encoding.json_decoder import JsonDecoder
from tidegate.errors import TidegateError
from tidegate.hlc import ZERO, Timestamp
from tidegate.serve.metrics import ServeCounts, metrics_text
from tidegate.serve.statement_threads import StatementThreads
from tidegate.serve.stream_source import ShownType, StreamColumns
from tidegate.subscribe.client.resume_token import read_token
from tidegate.subscribe.gate.feed_record import FeedPartition, FeedRecord
from tidegate.subscribe.gate.row_gate import GateStart, RowGate
from tidegate.subscribe.outputs.dialect import Dialect
from tidegate.subscribe.outputs.shape import (
    DIFF_COLUMN,
    PROGRESSED_COLUMN,
    TIMESTAMP_COLUMN,
)
from tidegate.subscribe.plan import SubscribePlan, plan_subscribe
from tidegate.subscribe.readable_history import ReadableHistory
from tidegate.subscribe.statement.statement import SubscribeStatement
from tidegate.subscribe.statement.switches import ALL_ON
from tidegate.subscribe.subscription import (
    Subscription,
    SubscriptionBatch,
    SubscriptionSource,
    resumed,
)
from tidegate.subscribe.updates.frontier import Frontier
from tidegate.subscribe.updates.relation import Relation, Relations

ACCOUNTS = Relation(TableName("accounts"), ("id", "balance", "note"), ("id",))
VIEW = Relation(TableName("totals"), ("sum",), kind="view")
_RELATIONS = Relations([ACCOUNTS, VIEW])
PLACE = FeedPartition("accounts", 0)
_SOURCE = SubscriptionSource("feed", tells_before=True)
_TYPES = {
    TIMESTAMP_COLUMN: ShownType.NUMERIC,
    PROGRESSED_COLUMN: ShownType.BOOL,
    DIFF_COLUMN: ShownType.INT8,
    "id": ShownType.INT8,
    "balance": ShownType.INT8,
}


class MemorySubscriptions:
    """One table, whose records a test appends.

    Attributes:
        open_streams: streams that are open.
        opened: how many were opened.
        failure: an error that every stream raises instead of a batch, once it is set.
    """

    def __init__(self, *, shared: bool = False, readable_from: Timestamp = ZERO) -> None:
        self.records: list[tuple[FeedPartition, FeedRecord]] = []
        self.open_streams: set[MemoryStream] = set()
        self.opened = 0
        self.failure: BaseException | None = None
        self.readable_from = readable_from
        self.counts = ServeCounts()
        self.switches = ALL_ON
        self.marker = ZERO
        self._rows: dict[int, tuple[Any, ...]] = {}
        self._shared: dict[object, _Reader] | None = {} if shared else None
        self._changed = asyncio.Event()
        self._statements = StatementThreads()

    def metrics(self) -> str:
        return metrics_text(self.counts, {"own": len(self.open_streams)}, {}, ())

    async def relations(self) -> Relations:
        return _RELATIONS

    def commit(self, wall: int, *rows: tuple[Any, ...] | int) -> None:
        """Commit rows ``(id, balance, note)`` at one time, and the deletion of each id that stands alone;
        then a marker."""
        for row in rows:
            key = row if isinstance(row, int) else row[0]
            new = None if isinstance(row, int) else row
            before = self._rows.pop(key, None)
            if new is not None:
                self._rows[key] = new
            commit = Commit(Timestamp(wall), key, new, before)
            self.records.append((PLACE, FeedRecord(len(self.records), *record_bytes(commit))))
        self.mark(wall)

    def mark(self, wall: int) -> None:
        """A marker."""
        self.marker = Timestamp(wall)
        self.records.append((PLACE, marker_record(len(self.records), self.marker)))
        self.wake()

    def fail(self, error: BaseException) -> None:
        """Every stream raises this from now on."""
        self.failure = error
        self.wake()

    def wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def changed(self) -> None:
        await self._changed.wait()

    async def parse(self, text: str) -> SubscribeStatement:
        return await self._statements.parse(text)

    async def describe(
        self, statement: SubscribeStatement | str, *, dialect: Dialect = Dialect.TIDEGATE
    ) -> StreamColumns:
        return _columns((await self._plan(statement, dialect)).shape.header)

    async def open(
        self,
        statement: SubscribeStatement | str,
        *,
        token: str = "",
        dialect: Dialect = Dialect.TIDEGATE,
    ) -> MemoryStream:
        plan = await self._plan(statement, dialect)
        history = ReadableHistory(self.readable_from, self.marker)
        as_of = history.choose_as_of(plan)
        reader: _Reader
        if token:
            known = read_token(token, Subscription(plan, as_of, _SOURCE).fingerprint)
            history.require(known.as_of)
            reader = _Reader(self, *resumed(plan, known, _SOURCE))
        elif self._shared is not None:
            reader = self._shared.setdefault(
                (str(statement), dialect), _Reader(self, Subscription(plan, as_of, _SOURCE), GateStart())
            )
        else:
            reader = _Reader(self, Subscription(plan, as_of, _SOURCE), GateStart())
        stream = MemoryStream(self, reader, _columns(plan.shape.header))
        self.open_streams.add(stream)
        self.opened += 1
        return stream

    async def close(self) -> None:
        for stream in list(self.open_streams):
            await stream.close()

    async def _plan(self, statement: SubscribeStatement | str, dialect: Dialect) -> SubscribePlan:
        parsed = await self.parse(statement) if isinstance(statement, str) else statement
        return plan_subscribe(parsed, _RELATIONS, now_ns=self.marker.wall, dialect=dialect)


class _Reader:
    """Gate and subscription of one reader, and the batches that it has made."""

    def __init__(self, source: MemorySubscriptions, subscription: Subscription, start: GateStart) -> None:
        self._records = source.records
        self._gate = RowGate({"accounts": JsonDecoder(Envelope.WRAPPED)}, [PLACE], start)
        self._subscription = subscription
        self._at = 0
        opening = tuple(subscription.opening())
        as_of = Frontier(opening[0][0]) if opening else Frontier(ZERO)
        self.batches = [SubscriptionBatch(as_of, opening, False, None, False)] if opening else []

    def read_on(self) -> bool:
        """Read until there is another batch; ``False`` where the records end before one."""
        while self._at < len(self._records):
            place, record = self._records[self._at]
            self._at += 1
            self._gate.add_record(place, record)
            opening = self._gate.open()
            batch = None if opening is None else self._subscription.advance(opening, self._gate.offsets())
            if batch is not None:
                self.batches.append(batch)
                return True
        return False


class MemoryStream:
    """A stream; ``taken`` counts its batches."""

    def __init__(self, source: MemorySubscriptions, reader: _Reader, columns: StreamColumns) -> None:
        self._source = source
        self._reader = reader
        self.header, self.types = columns.header, columns.types
        self.taken = 0
        self._ended = False

    async def next(self) -> SubscriptionBatch | None:
        while not self._ended:
            if self._source.failure is not None:
                raise self._source.failure
            if self.taken < len(self._reader.batches) or self._reader.read_on():
                self.taken += 1
                batch = self._reader.batches[self.taken - 1]
                self._ended = batch.is_last
                return batch
            await self._source.changed()
        return None

    async def close(self) -> None:
        self._ended = True
        self._source.open_streams.discard(self)


def _columns(header: Sequence[str]) -> StreamColumns:
    return StreamColumns(tuple(header), tuple(_TYPES.get(name, ShownType.TEXT) for name in header))


def random_commits(seed: int, walls: Iterable[int], keys: int = 8) -> Iterable[tuple[int, list[Any]]]:
    """Transfers between accounts: at each time two balances change, and their sum stays."""
    random = Random(seed)
    balances = dict.fromkeys(range(keys), 1_000)
    yield 1, [(key, balance, "") for key, balance in balances.items()]
    for wall in walls:
        one, other = random.sample(range(keys), 2)
        amount = random.randrange(1, 50)
        balances[one] -= amount
        balances[other] += amount
        yield wall, [(key, balances[key], json.dumps(amount)) for key in (one, other)]


#: JSON that the decoder takes, and that no writer gets to the end of which calls itself for each level.
DEEP_JSON = '[{"a": ' * 400 + "7" + "}]" * 400


def deep_bank() -> MemorySubscriptions:
    """A table with one row, whose ``note`` is ``DEEP_JSON``."""
    source = MemorySubscriptions()
    source.commit(5, (1, 8, "deep"))
    place, record = source.records[0]
    assert record.value is not None
    deep = record.value.replace(b'"deep"', DEEP_JSON.encode())
    source.records[0] = (place, FeedRecord(record.offset, record.key, deep))
    return source


async def until(condition: Any, what: str) -> None:
    """Let other tasks run until a condition holds; the test's own timeout is the bound."""
    async with asyncio.timeout(100):
        while not condition():  # noqa: ASYNC110 - what is waited for is state that tells nobody
            await asyncio.sleep(0.001)
    assert condition(), what


class Unforeseen(Exception):
    """An error that the server has no name for."""


assert not issubclass(Unforeseen, TidegateError)

"""Statements that take long hold up no other client, and end with their clients."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.unit.serve.postgres.served import run
from tests.unit.serve.shared.memory_table import keys_at_one, memory_table, read_to
from tests.unit.subscribe.consumer_run import plan_of
from tidegate.hlc import Timestamp
from tidegate.serve.kept_memory import KeptMemory
from tidegate.serve.shared.snapshot_chunks import SnapshotChunks, SnapshotSizes
from tidegate.serve.shared.table_reader import TableSnapshot
from tidegate.serve.turn_threads import Turns, TurnThreads
from tidegate.subscribe.query.selection import Selection
from tidegate.subscribe.statement_rows import StatementRows
from tidegate.subscribe.updates.frontier import Frontier
from tidegate.subscribe.updates.update import RowValues, Update

ROWS = 300
#: Takes some milliseconds for each row.
LONG = " OR ".join(["note = id::text"] * 2_000)


class Counted:
    """Counts the rows that queries are given, and says when there are some."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.rows = 0
        self._given = threading.Semaphore(0)
        passed: Any = Selection._passed

        def counted(selection: Selection, updates: Any, shown: Any) -> Any:
            return passed(selection, map(self._count, updates), shown)

        monkeypatch.setattr(Selection, "_passed", counted)

    def _count(self, update: Update) -> Update:
        self.rows += 1
        self._given.release()
        return update

    async def more(self, rows: int) -> None:
        """Wait until so many have been given."""
        for _ in range(rows):
            await asyncio.to_thread(self._given.acquire)


@pytest.mark.parametrize(
    "text", [f"SELECT id FROM accounts WHERE {LONG}", f"SELECT id FROM accounts WHERE {LONG} LIMIT 3"]
)
def test_a_statement_ends_with_its_client_amid_its_rows(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    counted = Counted(monkeypatch)

    async def test() -> None:
        async with memory_table(
            keys_at_one(ROWS), Timestamp(1), threads=TurnThreads(4, Turns(2), "t")
        ) as table:
            await read_to(table, 1)
            streams = [table.stream(f"SUBSCRIBE ({text})") for _ in range(2)]
            waiting = [asyncio.ensure_future(stream.next()) for stream in streams]
            await counted.more(3)
            for each in waiting:
                each.cancel()
            for stream in streams:
                await stream.close()
            assert await table.stream("SUBSCRIBE accounts").next() is not None
            await asyncio.to_thread(table.threads.shutdown)  # waits for threads that work
            assert counted.rows < ROWS

    run(test)


def test_who_waits_for_the_same_batch_gets_it_when_the_client_that_began_it_is_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    counted = Counted(monkeypatch)

    async def test() -> None:
        async with memory_table(
            keys_at_one(ROWS), Timestamp(1), threads=TurnThreads(4, Turns(2), "t")
        ) as table:
            await read_to(table, 1)
            first, second = (
                table.stream(f"SUBSCRIBE (SELECT id FROM accounts WHERE {LONG})") for _ in range(2)
            )
            begun = asyncio.ensure_future(first.next())
            await counted.more(1)
            waits = asyncio.ensure_future(second.next())
            begun.cancel()
            await first.close()
            batch = await waits
            assert batch is not None
            assert batch.is_snapshot
            await read_to(table, 2)
            changes = await second.next()
            assert changes is not None

    run(test)


def test_a_short_statement_overtakes_long_ones() -> None:
    async def test() -> None:
        async with memory_table(
            keys_at_one(ROWS), Timestamp(1), threads=TurnThreads(8, Turns(1), "t")
        ) as table:
            await read_to(table, 1)
            long = [table.stream(f"SUBSCRIBE (SELECT {n}, id FROM accounts WHERE {LONG})") for n in range(4)]
            waiting = [asyncio.ensure_future(stream.next()) for stream in long]
            await asyncio.sleep(0)
            rows: Sequence[RowValues] = ()
            batch = await table.stream("SUBSCRIBE accounts").next()
            assert batch is not None
            rows = batch.rows
            assert len(rows) == ROWS
            assert not any(each.done() for each in waiting)
            for each in waiting:
                each.cancel()

    run(test)


def test_statements_whose_batches_are_not_cut_leave_threads_for_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    gc.collect()
    caplog.clear()  # what tests before have left behind
    begun, goes_on = threading.Event(), threading.Event()

    def pause() -> None:
        begun.set()
        goes_on.wait(30)

    async def test() -> None:
        async with memory_table(
            keys_at_one(ROWS), Timestamp(1), threads=TurnThreads(2, Turns(2), "t")
        ) as table:
            await read_to(table, 1)
            text = "SUBSCRIBE (SELECT id FROM accounts ORDER BY note LIMIT 3)"
            streams = [table.stream(text, share=table.kept_memory.share(pause)) for _ in range(3)]
            waiting = [asyncio.ensure_future(stream.next()) for stream in streams]
            assert await asyncio.to_thread(begun.wait, 30)
            batch = await asyncio.wait_for(table.stream("SUBSCRIBE accounts").next(), 20)
            assert batch is not None
            assert not any(each.done() for each in waiting)
            for each, stream in zip(waiting, streams, strict=True):
                each.cancel()
                await stream.close()
            goes_on.set()
            await asyncio.to_thread(table.shared.batches.whole_threads.submit(int).result, 30)

    run(test)
    gc.collect()
    assert not caplog.records  # a client that goes is no error


def test_who_closes_chunks_does_not_wait_for_the_thread_that_makes_one() -> None:
    makes, goes_on, gone = threading.Event(), threading.Event(), threading.Event()

    def pause() -> None:
        makes.set()
        assert goes_on.wait(30)

    def rows() -> Iterator[RowValues]:
        try:
            yield from ((number, 1, "a") for number in range(3_000))
        finally:
            gone.set()

    memory = KeptMemory(1 << 30)
    shown_by = StatementRows(
        plan_of("SUBSCRIBE (SELECT id FROM accounts WHERE note LIKE id::text)"),
        "feed",
        memory.share(pause),
    )
    snapshot = TableSnapshot(3_000, rows(), Frontier(Timestamp(2)), {})
    chunks = SnapshotChunks(snapshot, shown_by, lambda: SnapshotSizes(chunk_rows=1_000), memory)
    with ThreadPoolExecutor(1) as threads:
        made = threads.submit(chunks.next)
        assert makes.wait(30)
        chunks.close()
        assert not gone.is_set()
        goes_on.set()
        made.result(30)
    del snapshot
    assert chunks.next() is None
    gc.collect()
    assert gone.is_set()

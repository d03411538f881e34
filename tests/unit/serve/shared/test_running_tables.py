"""Readers of tables end and begin again, whatever becomes of their subscribers."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit.serve.postgres.served import run
from tests.unit.serve.shared.memory_table import MemorySource, one_a_time
from tests.unit.subscribe.consumer_run import plan_of
from tests.unit.subscribe.topic_histories import RELATION
from tidegate.hlc import ZERO
from tidegate.rows.types import Kind, SqlType
from tidegate.serve.kept_memory import KeptMemory
from tidegate.serve.shared import running_tables
from tidegate.serve.shared.running_tables import RunningTables, SharedOptions
from tidegate.serve.shared.table_rows import MemoryLimits, MemoryTableRows, TableRows, open_table_rows

KEPT = KeptMemory(1 << 40)
MEMORY = MemoryLimits(9, 1 << 30)
PLAN = plan_of("SUBSCRIBE accounts")
TABLE: Any = SimpleNamespace(relation=RELATION, feed=SimpleNamespace(feed_id="feed"), target="accounts")


def with_source(
    monkeypatch: pytest.MonkeyPatch,
    rows: Callable[[], TableRows],
    begun: threading.Event | None = None,
    prepared: threading.Event | None = None,
) -> MemorySource:
    """Have readers read this source, and begin when ``begun`` is set. ``prepared`` is set when one asks."""
    source = MemorySource(one_a_time(range(1, 4)))

    def prepare(*_: object) -> Any:
        if prepared is not None:
            prepared.set()
        if begun is not None:
            begun.wait()
        return SimpleNamespace(source="feed", as_of=ZERO, gate=source, rows=rows())

    monkeypatch.setattr(running_tables, "_prepare", prepare)
    return source


def test_a_reader_whose_subscribers_went_while_it_began_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, prepared = threading.Event(), threading.Event()
    source = with_source(monkeypatch, lambda: MemoryTableRows("accounts", MEMORY), begun, prepared)

    async def test() -> None:
        with ThreadPoolExecutor(2) as threads:
            tables = RunningTables(SharedOptions(1_000, MEMORY, KEPT, linger_s=0.02), threads)
            first = asyncio.ensure_future(tables.acquire(TABLE, PLAN))
            await asyncio.to_thread(prepared.wait)
            first.cancel()
            begun.set()
            while not source.closed:  # noqa: ASYNC110 - the timer tells nobody
                await asyncio.sleep(0.01)
            assert tables.started == 1
            assert not [*tables]
            await tables.close()

    run(test)


def test_tables_that_cannot_begin_hold_up_no_other_table(monkeypatch: pytest.MonkeyPatch) -> None:
    answered, source = threading.Event(), MemorySource(one_a_time(range(1, 4)))

    def prepare(table: Any, *_: object) -> Any:
        if table is not TABLE:
            answered.wait()
        rows = MemoryTableRows("accounts", MEMORY)
        return SimpleNamespace(source="feed", as_of=ZERO, gate=source, rows=rows)

    monkeypatch.setattr(running_tables, "_prepare", prepare)

    async def test() -> None:
        with ThreadPoolExecutor(2) as threads:
            tables = RunningTables(SharedOptions(1_000, MEMORY, KEPT), threads)
            away: list[Any] = [
                SimpleNamespace(
                    relation=RELATION, feed=SimpleNamespace(feed_id=f"away {at}"), target="accounts"
                )
                for at in range(50)
            ]
            waiting = [asyncio.ensure_future(tables.acquire(table, PLAN)) for table in away]
            await asyncio.sleep(0)  # all of them have begun
            try:
                assert await asyncio.wait_for(tables.acquire(TABLE, PLAN), 10) is not None
            finally:
                answered.set()
            await asyncio.gather(*waiting)
            await tables.close()

    run(test)


def test_a_subscriber_that_comes_while_a_reader_ends_waits_for_its_directory(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pytest.importorskip("rocksdict")
    source = with_source(monkeypatch, lambda: open_table_rows(tmp_path, "feed", RELATION, MEMORY))
    monkeypatch.setattr(source, "close", lambda: time.sleep(0.2))

    async def test() -> None:
        with ThreadPoolExecutor(2) as threads:
            tables = RunningTables(SharedOptions(1_000, MEMORY, KEPT, tmp_path, linger_s=0.05), threads)
            for _ in range(2):
                shared = await tables.acquire(TABLE, PLAN)
                assert shared is not None
                tables.release(shared)
                while [*tables]:  # noqa: ASYNC110 - the timer tells nobody
                    await asyncio.sleep(0.005)
            await tables.close()

    run(test)


def test_a_table_lingers_from_its_last_subscriber_on_and_has_one_timer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source = with_source(monkeypatch, lambda: MemoryTableRows("accounts", MEMORY))

    async def test() -> None:
        with ThreadPoolExecutor(2) as threads:
            tables = RunningTables(SharedOptions(1_000, MEMORY, KEPT, linger_s=3_600), threads)
            for _ in range(5):
                shared = await tables.acquire(TABLE, PLAN)
                assert shared is not None
                assert not tables._timers, "somebody reads it"
                tables.release(shared)
                assert len(tables._timers) == 1
            assert tables.started == 1
            await tables.close()
            assert not tables._timers
        assert source.closed

    run(test)


def test_readers_that_differ_in_the_primary_key_alone_have_a_directory_each(tmp_path: Path) -> None:
    pytest.importorskip("rocksdict")
    first = open_table_rows(tmp_path, "feed", RELATION, MEMORY)
    second = open_table_rows(tmp_path, "feed", replace(RELATION, primary_key=RELATION.columns[:2]), MEMORY)
    first.close()
    second.close()
    assert len([*tmp_path.iterdir()]) == 2


@pytest.mark.parametrize("in_directory", [False, True])
def test_a_table_whose_column_has_another_type_has_a_reader_of_its_own_beside_the_one_of_before(
    in_directory: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if in_directory:
        pytest.importorskip("rocksdict")
    kinds = (Kind.INT, Kind.INT, Kind.STRING), (Kind.INT, Kind.DECIMAL, Kind.STRING)
    relations = [replace(RELATION, types=tuple(map(SqlType, each))) for each in kinds]
    named: list[Any] = [
        SimpleNamespace(relation=each, feed=TABLE.feed, target=TABLE.target) for each in relations
    ]
    data = tmp_path if in_directory else None

    def prepare(table: Any, *_: object) -> Any:
        rows = open_table_rows(data, "feed", table.relation, MEMORY)
        source = MemorySource(one_a_time(range(1, 4)))
        return SimpleNamespace(source="feed", as_of=ZERO, gate=source, rows=rows)

    monkeypatch.setattr(running_tables, "_prepare", prepare)

    async def test() -> None:
        with ThreadPoolExecutor(2) as threads:
            tables = RunningTables(SharedOptions(1_000, MEMORY, KEPT, data), threads)
            readers = [await tables.acquire(named[at], PLAN) for at in (0, 1, 1)]
            assert readers[0] is not readers[1]
            assert readers[1] is readers[2]
            await tables.close()

    run(test)

"""A shared table gives snapshots from which a subscription can go on."""

from __future__ import annotations

import asyncio
import threading

from tests.unit.serve.postgres.served import run
from tests.unit.serve.shared.memory_table import keys_at_one, memory_table, read_to
from tidegate.hlc import Timestamp
from tidegate.serve.shared.table_reader import TableSnapshot


def test_a_query_with_limit_whose_first_snapshot_is_too_old_when_it_is_made_counts_each_row_once() -> None:
    async def test() -> None:
        async with memory_table(keys_at_one(6), Timestamp(1), log_bytes=1) as table:
            await read_to(table, 2)
            take, taken, go_on = table.reader.snapshot, threading.Event(), threading.Event()

            def late() -> TableSnapshot:
                rows = take()
                taken.set()
                go_on.wait(10)
                return rows

            table.reader.snapshot = late  # type: ignore[method-assign] # the rows are shown when it is late
            stream = table.stream("SUBSCRIBE (SELECT id, balance FROM accounts ORDER BY id LIMIT 4)")
            opening = asyncio.ensure_future(stream.next())
            await asyncio.to_thread(taken.wait, 10)
            await read_to(table, 5)  # the log has dropped what follows 2
            go_on.set()
            first = await opening
            assert first is not None
            assert [row[1:] for row in first.rows] == [(1, 0, 5), (1, 1, 0), (1, 2, 0), (1, 3, 0)]
            await read_to(table, 6)
            changes = await stream.next()
            assert changes is not None
            assert [row[1:] for row in changes.rows] == [(-1, 0, 5), (1, 0, 6)]

    run(test)

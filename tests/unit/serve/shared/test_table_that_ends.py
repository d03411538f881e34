"""A shared table whose feed has succeeded: streams get all of it, and end without an error."""

from __future__ import annotations

from tests.unit.serve.postgres.served import run
from tests.unit.serve.shared.memory_table import keys_at_one, memory_table, one_a_time, read_to
from tidegate.hlc import Timestamp
from tidegate.serve.shared.snapshot_chunks import SnapshotSizes


def test_streams_get_all_that_came_and_end() -> None:
    async def test() -> None:
        async with memory_table(one_a_time((1, 2)), Timestamp(1)) as table:
            await read_to(table, 1)
            streams = [table.stream("SUBSCRIBE accounts") for _ in range(3)]
            for stream in streams:
                assert await stream.next() is not None
            table.source.succeeded = True
            table.source.let(2)
            for stream in streams:
                batch = await stream.next()
                assert batch is not None
                assert batch.rows[-1][3] == 2
                for _ in range(2):
                    assert await stream.next() is None

    run(test)


def test_a_stream_that_begins_behind_the_end_gets_the_snapshot() -> None:
    """The rows stay as long as the table does: an end without an error says that the snapshot was given."""

    async def test() -> None:
        async with memory_table(one_a_time((1, 2)), Timestamp(1)) as table:
            early = table.stream("SUBSCRIBE accounts")
            table.source.succeeded = True
            table.source.let(4)
            while await early.next() is not None:
                pass
            late = table.stream("SUBSCRIBE accounts")
            batches = []
            while (batch := await late.next()) is not None:
                batches.append(batch)
            assert [each.is_snapshot for each in batches].count(True) == 1
            assert batches[-1].rows[-1][3] == 2  # a snapshot may be a second old: changes follow it then

    run(test)


def test_a_snapshot_in_chunks_is_given_to_its_end() -> None:
    async def test() -> None:
        sizes = SnapshotSizes(2, 2)
        async with memory_table(keys_at_one(7), Timestamp(1), sizes=sizes) as table:
            await read_to(table, 1)
            stream = table.stream("SUBSCRIBE accounts")
            first = await stream.next()
            assert first is not None
            assert first.is_partial
            other = table.stream("SUBSCRIBE accounts")
            table.source.succeeded = True
            while await other.next() is not None:
                pass
            batches = [first]
            while (batch := await stream.next()) is not None:
                batches.append(batch)
            assert batches[-1].is_snapshot
            assert sum(len(each.rows) for each in batches) == 7

    run(test)

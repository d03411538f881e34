"""Batches have bounds in bytes: what a query makes long comes in pieces, or ends by a named error."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.unit.serve.postgres.served import run
from tests.unit.serve.shared.memory_table import at_each_time, keys_at_one, memory_table, read_to
from tidegate.errors import LimitExceeded
from tidegate.hlc import Timestamp
from tidegate.serve.shared.snapshot_chunks import SnapshotSizes
from tidegate.serve.web.batch_messages import error_message
from tidegate.subscribe.subscription import SubscriptionBatch


@pytest.mark.parametrize("up_to", ["", "UP TO 7"])
def test_changes_that_a_query_makes_long_come_in_parts_at_their_timestamps(up_to: str) -> None:
    async def test() -> None:
        sizes = SnapshotSizes(piece_bytes=1_500)
        async with memory_table(at_each_time(range(1, 9)), Timestamp(1), sizes=sizes) as table:
            text = f"SUBSCRIBE (SELECT id, note || note AS note FROM accounts) {up_to}"
            await read_to(table, 1)
            streams = [table.stream(text) for _ in range(2)]
            first = await asyncio.gather(*(stream.next() for stream in streams))
            await read_to(table, 8)
            for stream, snapshot in zip(streams, first, strict=True):
                assert snapshot is not None
                assert snapshot.token is not None
                last = 6 if up_to else 8
                parts: list[SubscriptionBatch] = []
                while not parts or parts[-1].frontier < (Timestamp(7) if up_to else Timestamp(8).next()):
                    part = await stream.next()
                    assert part is not None
                    parts.append(part)
                assert [row[2] for part in parts for row in part.rows] == [*range(2, last + 1)]
                assert max(len(part.rows) for part in parts) == 2
                for part in parts[:-1]:  # reading on from there begins where the snapshot says
                    assert part.token is not None
                    assert part.token.frontier == part.frontier
                    assert part.token.offsets == snapshot.token.offsets

    run(test)


def test_a_snapshot_that_a_query_makes_long_comes_in_chunks() -> None:
    async def test() -> None:
        sizes = SnapshotSizes(piece_bytes=1_500)
        async with memory_table(at_each_time([1, 2, 3, 4, 5]), Timestamp(5), sizes=sizes) as table:
            await read_to(table, 5)
            plain = await table.stream("SUBSCRIBE (SELECT id, note FROM accounts)").next()
            assert plain is not None
            assert (plain.is_snapshot, len(plain.rows)) == (True, 5)
            stream = table.stream("SUBSCRIBE (SELECT id, note || note AS note FROM accounts)")
            chunks: list[SubscriptionBatch] = []
            while not chunks or chunks[-1].is_partial:
                chunk = await stream.next()
                assert chunk is not None
                chunks.append(chunk)
            assert len(chunks) > 2
            assert sorted(row[2:] for chunk in chunks for row in chunk.rows) == [
                (key, "a" * 600) for key in range(1, 6)
            ]

    run(test)


def test_rows_of_a_directory_come_in_chunks_of_bytes_and_one_batch_of_them_has_a_bound(
    tmp_path: Path,
) -> None:
    async def test() -> None:
        sizes = SnapshotSizes(piece_bytes=1_500, whole_bytes=2_000)
        history = at_each_time([1, 2, 3, 4, 5])
        async with memory_table(history, Timestamp(5), sizes=sizes, data=tmp_path) as table:
            await read_to(table, 5)
            chunk = await table.stream("SUBSCRIBE accounts").next()
            assert chunk is not None
            assert chunk.is_partial
            assert len(chunk.rows) < 5
            with pytest.raises(LimitExceeded, match="a snapshot that has to come at once takes more than"):
                await table.stream("SUBSCRIBE accounts WITHIN TIMESTAMP ORDER BY id").next()

    run(test)


def test_what_comes_at_once_has_a_bound_in_the_server_too() -> None:
    async def test() -> None:
        columns = ", ".join(["||".join(["note"] * 20)] * 500)
        history = keys_at_one(90, "x" * 300)
        async with memory_table(history, Timestamp(1)) as table:
            await read_to(table, 1)
            whole = table.stream(
                f"SUBSCRIBE (SELECT id, {columns} FROM accounts) WITHIN TIMESTAMP ORDER BY id"
            )
            with pytest.raises(LimitExceeded, match="have to come at once") as caught:
                await whole.next()
            assert error_message(caught.value)["error"]["sqlstate"] == "54000"
            chunk = await table.stream(f"SUBSCRIBE (SELECT id, {columns} FROM accounts)").next()
            assert chunk is not None
            assert chunk.is_partial

    run(test)


def test_batches_that_are_kept_count_what_queries_have_made() -> None:
    async def test() -> None:
        async with memory_table(at_each_time([1, 2]), Timestamp(1)) as table:
            await read_to(table, 1)
            long = "||".join(["note"] * 100)
            stream = table.stream(f"SUBSCRIBE (SELECT id, {long} AS note FROM accounts)")
            await stream.next()
            await read_to(table, 2)
            await stream.next()
            assert table.shared.batches.held_bytes > 100 * 300

    run(test)

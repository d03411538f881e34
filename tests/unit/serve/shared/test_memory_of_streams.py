"""The memory that streams of a shared table keep by themselves has one bound; a stream that needs little goes
on."""

from __future__ import annotations

import pytest

from tests.unit.serve.postgres.served import run
from tests.unit.serve.shared.memory_table import PLACE, at_each_time, keys_at_one, memory_table, read_to
from tests.unit.subscribe.topic_histories import Commit, TopicHistory, marker_record, record_bytes
from tidegate.errors import LimitExceeded
from tidegate.hlc import Timestamp
from tidegate.serve.held_batches import COUNTED_BYTES
from tidegate.serve.shared.snapshot_chunks import SnapshotSizes
from tidegate.subscribe.gate.feed_record import FeedRecord
from tidegate.subscribe.subscription import SubscriptionBatch

FIRST = "SUBSCRIBE (SELECT * FROM accounts ORDER BY id LIMIT 1)"


def test_rows_for_limit_have_one_bound_for_all_streams_and_closed_ones_make_room() -> None:
    async def test() -> None:
        history = keys_at_one(1_000, "a" * 1_000)
        async with memory_table(history, Timestamp(1), own_bytes=3_000_000) as table:
            await read_to(table, 1)
            first, second = (table.stream(FIRST) for _ in range(2))
            assert await first.next() is not None
            with pytest.raises(LimitExceeded, match="all subscriptions together keep more than"):
                await second.next()
            plain = await table.stream("SUBSCRIBE (SELECT id FROM accounts)").next()
            assert plain is not None
            assert len(plain.rows) == 1_000 or plain.is_partial
            await first.close()
            await second.close()
            assert await table.stream(FIRST).next() is not None

    run(test)


@pytest.mark.parametrize("text", ["SUBSCRIBE accounts", "SUBSCRIBE (SELECT id, note FROM accounts)"])
def test_changes_come_in_parts_while_memory_is_scarce(text: str) -> None:
    async def test() -> None:
        sizes = SnapshotSizes(piece_bytes=1_500)
        history = at_each_time(range(1, 9))
        async with memory_table(history, Timestamp(1), sizes=sizes, own_bytes=1_000_000) as table:
            await read_to(table, 1)
            free, scarce = (table.stream(text) for _ in range(2))
            for stream in (free, scarce):
                assert await stream.next() is not None
            await read_to(table, 8)
            whole = await free.next()
            assert whole is not None
            table.kept_memory.hold(table, 600_000)
            parts: list[SubscriptionBatch] = []
            while not parts or parts[-1].frontier < whole.frontier:
                part = await scarce.next()
                assert part is not None
                parts.append(part)
            assert len(parts) > 2
            assert [row for part in parts for row in part.rows] == list(whole.rows)

    run(test)


def test_batches_that_clients_do_not_take_leave_room_for_small_ones() -> None:
    async def test() -> None:
        history = keys_at_one(1_000, "a" * 1_000)
        async with memory_table(history, Timestamp(1), own_bytes=8 * COUNTED_BYTES) as table:
            await read_to(table, 1)
            # Each shows the rows in another form, so that they share no batch.
            held: list[SubscriptionBatch] = []
            for number in range(12):
                stream = table.stream(f"SUBSCRIBE (SELECT id, note, {number} AS n FROM accounts)")
                batch = await stream.next()
                assert batch is not None
                held.append(batch)
                assert table.kept_memory.taken <= 8 * COUNTED_BYTES
            assert [batch.is_partial for batch in held] == [False] * 4 + [True] * 8
            assert (
                4 * COUNTED_BYTES < table.kept_memory.taken < 6 * COUNTED_BYTES
            )  # small ones count for nothing

    run(test)


def test_a_stream_that_failed_gives_back_what_it_kept_when_it_is_closed() -> None:
    async def test() -> None:
        history = keys_at_one(1_000, "a" * 1_000)
        async with memory_table(history, Timestamp(1), own_bytes=2_000_000) as table:
            await read_to(table, 1)
            stream = table.stream(FIRST)
            with pytest.raises(LimitExceeded) as failed:
                await stream.next()
            assert table.kept_memory.taken > 1_000_000
            await stream.close()
            assert table.kept_memory.taken < 100_000
            assert failed.value.__traceback__ is not None  # it still holds the rows

    run(test)


@pytest.mark.parametrize("sizes", [SnapshotSizes(), SnapshotSizes(shared_rows=100, chunk_rows=300)])
def test_rows_of_a_table_in_memory_come_in_small_pieces_while_memory_is_scarce(sizes: SnapshotSizes) -> None:
    async def test() -> None:
        history, most = keys_at_one(900, "a" * 10_000), 9 * COUNTED_BYTES
        async with memory_table(history, Timestamp(1), sizes=sizes, own_bytes=most) as table:
            await read_to(table, 1)
            stream = table.stream("SUBSCRIBE accounts")
            held: list[SubscriptionBatch] = []
            if sizes.shared_rows == 100:  # memory becomes scarce amid the snapshot
                first = await stream.next()
                assert first is not None
                held.append(first)
            table.kept_memory.hold(table, most - table.kept_memory.taken)
            while not held or held[-1].is_partial:
                batch = await stream.next()
                assert batch is not None
                held.append(batch)
                assert len(batch.rows) < 100
            keys = [row[2] for batch in held for row in batch.rows]
            assert sorted(keys) == list(range(900))

    run(test)


def all_rewritten(count: int, note: str) -> TopicHistory:
    """Return a history of so many keys that come at the time 1, and are all replaced at the time 2."""
    commits = [Commit(Timestamp(1), key, (key, 1, note), None) for key in range(count)]
    commits += [Commit(Timestamp(2), key, (key, 2, note), (key, 1, note)) for key in range(count)]
    records = [(PLACE, FeedRecord(2 * at, *record_bytes(each))) for at, each in enumerate(commits)]
    records.insert(count, (PLACE, marker_record(2 * count - 1, Timestamp(1))))
    records.append((PLACE, marker_record(4 * count, Timestamp(2))))
    return TopicHistory(tuple(commits), (PLACE,), tuple(records))


@pytest.mark.parametrize("has_room", [True, False])
def test_rows_that_a_slow_snapshot_keeps_beside_the_table_have_the_bound_too(has_room: bool) -> None:
    async def test() -> None:
        history, sizes = all_rewritten(300, "a" * 10_000), SnapshotSizes(shared_rows=1, chunk_rows=30)
        own_bytes = (16 if has_room else 2) * COUNTED_BYTES
        async with memory_table(history, Timestamp(1), sizes=sizes, own_bytes=own_bytes) as table:
            await read_to(table, 1)
            slow = table.stream("SUBSCRIBE accounts")
            first = await slow.next()
            assert first is not None
            await read_to(table, 2)
            if not has_room:
                assert table.kept_memory.taken == 0
                with pytest.raises(
                    LimitExceeded, match="snapshots and batches that clients have not taken yet"
                ):
                    await slow.next()
                return
            assert table.kept_memory.taken > 2 * COUNTED_BYTES
            batches = [first]
            while batches[-1].is_partial:
                batch = await slow.next()
                assert batch is not None
                batches.append(batch)
            assert sorted(row[2:4] for each in batches for row in each.rows) == [
                (key, 1) for key in range(300)
            ]
            await slow.close()
            assert table.kept_memory.taken == 0

    run(test)

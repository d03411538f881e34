"""Streams of a shared table: whenever they begin and however slow they are, they see the table as it was."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.serve.postgres.served import run
from tests.unit.serve.shared.memory_table import (
    PLACE,
    Follower,
    MemoryTable,
    keys_at_one,
    memory_table,
    one_a_time,
    read_to,
)
from tests.unit.subscribe.topic_histories import (
    END,
    Commit,
    TopicHistory,
    marker_record,
    record_bytes,
    times,
    topic_histories,
)
from tidegate.errors import (
    BrokerUnavailable,
    EvaluationError,
    FellBehind,
    HistoryLost,
    RequestRefused,
    RetryError,
)
from tidegate.hlc import Timestamp
from tidegate.serve.postgres.error_fields import error_fields
from tidegate.serve.shared.shared_stream import SharedStream
from tidegate.serve.shared.snapshot_chunks import SnapshotSizes
from tidegate.serve.shared.table_rows import MemoryLimits
from tidegate.serve.stream_source import ShownType, SubscriptionStream
from tidegate.serve.web.batch_messages import error_message
from tidegate.subscribe.client.resume_token import ResumeToken
from tidegate.subscribe.gate.feed_record import FeedRecord
from tidegate.subscribe.outputs.dialect import Dialect
from tidegate.subscribe.subscription import SubscriptionBatch
from tidegate.subscribe.updates.frontier import frontier_after
from tidegate.subscribe.updates.value_order import values_key

#: The table, and a query that makes its rows anew: it may make longer ones, so its batches can be cut.
SUBJECTS = ("accounts", "(SELECT id, balance, note || '' AS note FROM accounts)")
MODES = ("", "ENVELOPE UPSERT (KEY (id))", "ENVELOPE DEBEZIUM (KEY (id))")


def by_value(rows: list[Any]) -> list[Any]:
    return sorted(rows, key=values_key)


@given(
    history=topic_histories(),
    as_of=times(),
    seed=st.integers(0, 2**32),
    memory_bytes=st.sampled_from([None, 0, 2_000]),
    sizes=st.none()
    | st.builds(SnapshotSizes, st.integers(0, 2), st.integers(1, 2), st.sampled_from([1, 700, 1 << 24])),
)
def test_every_stream_sees_the_table_as_of_each_frontier(
    history: TopicHistory,
    as_of: Timestamp,
    seed: int,
    memory_bytes: int | None,
    sizes: SnapshotSizes | None,
) -> None:
    """Five streams begin at any moment, and are as slow as it happens."""
    random = Random(seed)

    async def one(table: MemoryTable, subject: str, mode: str) -> None:
        for _ in range(random.randrange(4)):
            table.source.let(random.randrange(20))
            await asyncio.sleep(random.choice((0, 0.0005)))
        follower = Follower(table.stream(f"SUBSCRIBE {subject} {mode} WITH (PROGRESS)"))
        while not follower.batches or follower.batches[-1].frontier <= END:
            table.source.let(random.randrange(20))
            await asyncio.sleep(random.choice((0, 0, 0.0005)))
            await follower.next_batch()
        assert [batch.is_snapshot for batch in follower.batches].count(True) == 1
        for frontier, rows in follower.states:
            assert rows == by_value(history.rows_at(frontier))
        assert follower.states[-1][0] == frontier_after(END)

    async def test() -> None:
        async with memory_table(history, as_of, memory_bytes=memory_bytes, sizes=sizes) as table:
            await asyncio.gather(
                *(one(table, random.choice(SUBJECTS), random.choice(MODES)) for _ in range(5))
            )

    run(test)


@given(history=topic_histories(), as_of=times(), crash=st.integers(0, 10), mode=st.sampled_from(MODES))
def test_a_stream_goes_on_behind_its_token(
    history: TopicHistory, as_of: Timestamp, crash: int, mode: str
) -> None:
    text = f"SUBSCRIBE accounts {mode} WITH (PROGRESS)"

    async def test() -> None:
        async with memory_table(history, as_of) as table:
            table.source.let(1_000)
            first = Follower(table.stream(text))
            await first.take_to(END)
        async with memory_table(history, as_of) as table:
            at = min(crash, len(first.batches) - 1)
            token = first.batches[at].token
            if token is None or token.frontier > END:
                return
            table.source.let(1_000)
            again = Follower(table.stream(text, start=token.frontier, token=token), resumed=True)
            again.contents.restore(by_value(history.rows_at(token.frontier)))
            await again.take_to(END)
            assert not any(batch.is_snapshot for batch in again.batches)
            for frontier, rows in again.states:
                assert rows == by_value(history.rows_at(frontier))

    run(test)


def test_streams_of_one_statement_get_the_same_batches() -> None:
    async def test() -> None:
        async with memory_table(one_a_time(range(1, 10)), Timestamp(3)) as table:
            await read_to(table, 4)
            streams = [table.stream("SUBSCRIBE accounts") for _ in range(20)]
            first = await asyncio.gather(*(stream.next() for stream in streams))
            assert len({id(batch) for batch in first}) == 1
            await read_to(table, 9)
            for _ in range(5):
                batches = await asyncio.gather(*(stream.next() for stream in streams))
                assert len({id(batch) for batch in batches}) == 1
            assert table.shared.batches.made == 5

    run(test)


@pytest.mark.parametrize("directory", [False, True], ids=["in memory", "in a directory"])
@pytest.mark.parametrize("mode", ["", "ENVELOPE UPSERT (KEY (id))", "ENVELOPE DEBEZIUM (KEY (id))"])
def test_a_large_snapshot_comes_in_chunks_of_one_time_while_the_table_goes_on(
    mode: str, directory: bool, tmp_path: Path
) -> None:
    data = tmp_path if directory else None

    async def test() -> None:
        sizes = SnapshotSizes(shared_rows=5, chunk_rows=2)
        async with memory_table(keys_at_one(7), Timestamp(1), sizes=sizes, data=data) as table:
            await read_to(table, 1)
            streams = [table.stream(f"SUBSCRIBE accounts {mode}") for _ in range(2)]
            first = await asyncio.gather(*(stream.next() for stream in streams))
            await read_to(table, 9)
            for stream, begun in zip(streams, first, strict=True):
                chunks = [begun]
                while chunks[-1] is not None and chunks[-1].is_partial:
                    chunks.append(await stream.next())
                found = [chunk for chunk in chunks if chunk is not None]
                assert [len(chunk.rows) for chunk in found] == [2, 2, 2, 1]
                assert [chunk.token is None for chunk in found] == [True, True, True, False]
                assert [chunk.is_snapshot for chunk in found] == [False, False, False, True]
                assert {row[0] for chunk in found for row in chunk.rows} == {Timestamp(1)}
                change = await stream.next()
                assert change is not None
                assert {row[0] for row in change.rows} == {Timestamp(2)}
            late = table.stream("SUBSCRIBE accounts WITHIN TIMESTAMP ORDER BY balance")
            whole = await late.next()
            assert whole is not None
            assert (whole.is_snapshot, len(whole.rows)) == (True, 7)

    run(test)


async def batches_of(stream: SharedStream) -> list[SubscriptionBatch]:
    """All batches to the end of a stream."""
    found: list[SubscriptionBatch] = []
    while (batch := await stream.next()) is not None:
        found.append(batch)
    return found


@pytest.mark.parametrize("directory", [False, True], ids=["in memory", "in a directory"])
def test_what_ends_the_reader_amid_a_snapshot_ends_its_streams(directory: bool, tmp_path: Path) -> None:
    data = tmp_path if directory else None

    async def test() -> None:
        sizes = SnapshotSizes(shared_rows=1, chunk_rows=1)
        async with memory_table(keys_at_one(4), Timestamp(1), sizes=sizes, data=data) as table:
            await read_to(table, 1)
            stream = table.stream("SUBSCRIBE accounts")
            assert await stream.next() is not None
            table.source.fail(HistoryLost("retention has overtaken it"))
            await asyncio.to_thread(table.thread.join)
            with pytest.raises(HistoryLost, match="overtaken"):
                await batches_of(stream)

    run(test)


def test_a_stream_that_ends_amid_its_snapshot_lets_the_rows_go() -> None:
    async def test() -> None:
        sizes = SnapshotSizes(shared_rows=1, chunk_rows=1)
        async with memory_table(keys_at_one(7), Timestamp(1), sizes=sizes) as table:
            await read_to(table, 1)
            stream = table.stream("SUBSCRIBE accounts")
            chunk = await stream.next()
            assert chunk is not None
            assert chunk.is_partial
            chunks = stream._chunks
            assert chunks is not None
            await stream.close()
            assert chunks.next() is None
            assert await stream.next() is None

    run(test)


def test_a_slow_client_of_a_large_snapshot_goes_on_behind_it() -> None:
    """The log has lost what follows the snapshot by the time that its last chunk is taken."""

    async def test() -> None:
        sizes, tokens = SnapshotSizes(shared_rows=1, chunk_rows=2), []

        async def open_own(token: ResumeToken) -> SubscriptionStream:
            tokens.append(token)
            raise BrokerUnavailable("Kafka is away")

        async with memory_table(keys_at_one(5), Timestamp(1), log_bytes=1, sizes=sizes) as table:
            await read_to(table, 1)
            stream = table.stream("SUBSCRIBE accounts", open_own=open_own)
            batches = [await stream.next()]
            await read_to(table, 9)
            while batches[-1] is not None and not batches[-1].is_snapshot:
                batches.append(await stream.next())
            with pytest.raises(FellBehind):
                await stream.next()
            last = batches[-1]
            assert last is not None
            assert tokens == [last.token]

    run(test)


def test_a_call_that_is_cancelled_loses_no_batch() -> None:
    async def test() -> None:
        async with memory_table(one_a_time(range(1, 6)), Timestamp(1)) as table:
            await read_to(table, 1)
            stream = table.stream("SUBSCRIBE accounts")
            assert await stream.next() is not None
            for _ in range(3):
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(stream.next(), 0.01)
            await read_to(table, 5)
            found = [await stream.next() for _ in range(4)]
            assert [batch.rows[-1][3] for batch in found if batch] == [2, 3, 4, 5]

    run(test)


def test_a_slow_stream_falls_behind_and_others_notice_nothing() -> None:
    async def test() -> None:
        async with memory_table(one_a_time(range(1, 400)), Timestamp(1), log_bytes=20_000) as table:
            await read_to(table, 2)
            slow, quick = (table.stream("SUBSCRIBE accounts") for _ in range(2))
            assert await slow.next() is not None
            for wall in range(2, 400):
                await read_to(table, wall)
                await quick.next()
            for _ in range(2):  # each later call says the same
                with pytest.raises(FellBehind, match="begin again with a snapshot") as caught:
                    await slow.next()
            assert (caught.value.code, caught.value.sqlstate) == ("fell_behind", "53200")
            assert (caught.value.token, caught.value.hint) == ("", "")  # nobody can open a reader for it
            assert slow.times_behind == 1
            assert quick.times_behind == 0
            assert table.shared.held_bytes <= 20_000

    run(test)


class OwnReader:
    """A reader for a stream that fell behind: it gives one batch for each time up to ``until``."""

    def __init__(self, token: ResumeToken, until: int) -> None:
        self.header: tuple[str, ...] = ()
        self.types: tuple[ShownType, ...] = ()
        self._wall = token.frontier.wall
        self._until = until
        self.token = token
        self.closed = False

    async def next(self) -> SubscriptionBatch | None:
        if self._wall >= self._until:
            return None
        self._wall += 1
        frontier = frontier_after(Timestamp(self._wall))
        row = (Timestamp(self._wall), 1, 1, self._wall, "")
        token = ResumeToken(frontier, self.token.fingerprint)
        return SubscriptionBatch(frontier, (row,), False, token, False)

    async def close(self) -> None:
        self.closed = True


def test_a_stream_that_fell_behind_catches_up_by_a_reader_of_its_own() -> None:
    owns: list[OwnReader] = []

    async def open_own(token: ResumeToken) -> SubscriptionStream:
        owns.append(OwnReader(token, 399))
        return owns[-1]

    async def test() -> None:
        async with memory_table(one_a_time(range(1, 400)), Timestamp(1), log_bytes=20_000) as table:
            await read_to(table, 1)
            stream = table.stream("SUBSCRIBE accounts", open_own=open_own)
            seen = []
            for wall in range(1, 6):
                await read_to(table, wall)
                batch = await stream.next()
                assert batch is not None
                seen.append(batch.rows[-1][3])
            await read_to(table, 399)
            assert not stream.has_own_reader
            while seen[-1] < 399:
                batch = await stream.next()
                assert batch is not None
                seen.append(batch.rows[-1][3])
            assert seen == list(range(1, 400))
            (own,) = owns
            assert own.token.frontier == frontier_after(Timestamp(5))
            assert own.closed
            assert not stream.has_own_reader

    run(test)


@pytest.mark.parametrize("dialect", list(Dialect))
def test_a_stream_that_ends_behind_gets_the_token_of_its_last_batch(dialect: Dialect) -> None:
    async def full(_: ResumeToken) -> SubscriptionStream:
        raise RetryError("32 subscriptions have a reader of their own")

    async def test() -> None:
        async with memory_table(one_a_time(range(1, 200)), Timestamp(1), log_bytes=20_000) as table:
            await read_to(table, 2)
            stream = table.stream("SUBSCRIBE accounts", open_own=full, dialect=dialect)
            batch = await stream.next()
            assert batch is not None
            await read_to(table, 199)
            with pytest.raises(FellBehind, match="resume from the error's token") as caught:
                await stream.next()
            assert caught.value.token == str(batch.token)
            assert caught.value.hint == "go on by AS OF 2.0000000000 and WITH (SNAPSHOT = false)"
            assert ("32 subscriptions" in str(caught.value)) == (dialect is Dialect.TIDEGATE)
            assert error_message(caught.value)["error"]["token"] == caught.value.token
            assert error_fields(caught.value)["H"] == caught.value.hint

    run(test)


def test_a_limited_query_that_falls_behind_ends() -> None:
    async def never(_: ResumeToken) -> SubscriptionStream:
        raise AssertionError

    async def test() -> None:
        async with memory_table(one_a_time(range(1, 200)), Timestamp(1), log_bytes=20_000) as table:
            await read_to(table, 2)
            stream = table.stream("SUBSCRIBE (SELECT * FROM accounts ORDER BY id LIMIT 1)", open_own=never)
            batch = await stream.next()
            assert batch is not None
            assert batch.token is None
            await read_to(table, 199)
            with pytest.raises(FellBehind):
                await stream.next()

    run(test)


def test_up_to_ends_a_stream() -> None:
    async def test() -> None:
        async with memory_table(one_a_time((1, 2, 5, 9)), Timestamp(2)) as table:
            await read_to(table, 2)
            follower = Follower(table.stream("SUBSCRIBE accounts WITH (PROGRESS) UP TO 7"))
            await follower.next_batch()
            await read_to(table, 9)
            while await follower.next_batch() is not None:
                pass
            assert follower.batches[-1].is_last
            assert follower.batches[-1].frontier == Timestamp(7)
            assert follower.states[-1] == (Timestamp(7), [(1, 5, "")])
            assert await follower.stream.next() is None

    run(test)


def test_without_a_snapshot_a_stream_begins_at_the_present() -> None:
    async def test() -> None:
        async with memory_table(one_a_time((1, 2, 5, 9)), Timestamp(1)) as table:
            await read_to(table, 2)
            stream = table.stream("SUBSCRIBE accounts WITH (SNAPSHOT = false, PROGRESS)")
            opening = await stream.next()
            assert opening is not None
            assert opening.rows == ((Timestamp(2), True, None, None, None, None),)
            await read_to(table, 9)
            change = await stream.next()
            assert change is not None
            assert [row[2:5] for row in change.rows[:2]] == [(-1, 1, 2), (1, 1, 5)]

    run(test)


def test_what_ends_the_reader_ends_every_stream_behind_what_came_before() -> None:
    async def test() -> None:
        async with memory_table(one_a_time((1, 2)), Timestamp(1)) as table:
            await read_to(table, 1)
            streams = [table.stream("SUBSCRIBE accounts") for _ in range(3)]
            await asyncio.gather(*(stream.next() for stream in streams))
            table.source.let(2)
            table.source.fail(HistoryLost("retention has overtaken it"))
            for stream in streams:
                batch = await stream.next()
                assert batch is not None
                assert batch.rows[-1][3] == 2
                for _ in range(2):
                    with pytest.raises(HistoryLost, match="overtaken"):
                        await stream.next()
            assert table.shared.ended
            late = table.stream("SUBSCRIBE accounts")
            with pytest.raises(HistoryLost):
                await late.next()

    run(test)


def test_what_opens_when_the_topic_is_another_one_is_given_to_nobody() -> None:
    async def test() -> None:
        async with memory_table(one_a_time((1, 2, 3)), Timestamp(1)) as table:
            await read_to(table, 1)
            stream = table.stream("SUBSCRIBE accounts")
            assert await stream.next() is not None
            table.source.others = HistoryLost("the topic was made anew")
            table.source.let(4)
            for reader in (stream, table.stream("SUBSCRIBE accounts")):
                with pytest.raises(HistoryLost, match="made anew"):
                    await reader.next()
            assert table.shared.frontier == frontier_after(Timestamp(1))

    run(test)


def test_an_error_of_one_statement_ends_its_streams_alone() -> None:
    async def test() -> None:
        async with memory_table(one_a_time((1, 2, 5)), Timestamp(1)) as table:
            await read_to(table, 1)
            wrong = [table.stream("SUBSCRIBE (SELECT 1 / (balance - 2) FROM accounts)") for _ in range(2)]
            right = table.stream("SUBSCRIBE accounts")
            for stream in (*wrong, right):
                assert await stream.next() is not None
            await read_to(table, 5)
            for stream in wrong:
                for _ in range(2):
                    with pytest.raises(EvaluationError, match="division by zero"):
                        await stream.next()
            assert [await right.next() for _ in range(2)][-1] is not None

    run(test)


@pytest.mark.parametrize(
    ("most", "sentence"),
    [
        (MemoryLimits(3, 1 << 30), "has more than 3 rows"),
        (MemoryLimits(1_000, 1 << 10), "takes more than 0 MiB"),
    ],
)
def test_a_table_that_is_too_large_ends_with_a_sentence(most: MemoryLimits, sentence: str) -> None:
    commits = [Commit(Timestamp(1), key, (key, 1, ""), None) for key in range(4)]
    records = [(PLACE, FeedRecord(at, *record_bytes(each))) for at, each in enumerate(commits)]
    history = TopicHistory(tuple(commits), (PLACE,), (*records, (PLACE, marker_record(4, Timestamp(2)))))

    async def test() -> None:
        async with memory_table(history, most=most) as table:
            table.source.let(10)
            with pytest.raises(RequestRefused, match=sentence) as caught:
                await table.stream("SUBSCRIBE accounts").next()
            assert caught.value.code == "table_too_large"

    run(test)


def test_the_end_of_the_server_ends_streams() -> None:
    async def test() -> None:
        async with memory_table(one_a_time((1, 2)), Timestamp(1)) as table:
            await read_to(table, 2)
            stream, waiting = (table.stream("SUBSCRIBE accounts") for _ in range(2))
            assert await stream.next() is not None
            assert await waiting.next() is not None
            pending = asyncio.ensure_future(waiting.next())
            await asyncio.sleep(0)
            table.shared.stop()
            assert await stream.next() is None
            assert await pending is None

    run(test)


def test_a_snapshot_that_is_made_when_the_reader_has_ended_is_its_error_and_not_empty() -> None:
    async def test() -> None:
        async with memory_table(one_a_time(range(1, 6)), Timestamp(1)) as table:
            await read_to(table, 4)
            free = threading.Event()
            for _ in range(2):
                table.threads.submit(free.wait)
            waiting = asyncio.ensure_future(table.stream("SUBSCRIBE accounts").next())
            while not table.threads._work_queue.qsize():  # noqa: ASYNC110 - the queue tells nobody
                await asyncio.sleep(0)
            table.source.fail(HistoryLost("deleted"))
            await asyncio.to_thread(table.thread.join)
            free.set()
            with pytest.raises(HistoryLost):
                await waiting

    run(test)


def test_a_snapshot_of_a_second_ago_is_not_given_where_the_log_has_gone_on_without_it() -> None:
    async def test() -> None:
        async with memory_table(one_a_time(range(1, 10)), Timestamp(1), log_bytes=1) as table:
            await read_to(table, 3)
            first = await table.stream("SUBSCRIBE accounts").next()
            await read_to(table, 8)
            second = await table.stream("SUBSCRIBE accounts").next()
            assert first is not None
            assert second is not None
            assert not table.shared.holds(first.frontier)
            assert table.shared.holds(second.frontier)

    run(test)


def test_at_least_is_not_given_the_snapshot_of_a_second_ago() -> None:
    async def test() -> None:
        async with memory_table(one_a_time(range(1, 10)), Timestamp(3)) as table:
            await read_to(table, 4)
            assert await table.stream("SUBSCRIBE accounts").next() is not None
            await read_to(table, 8)
            snapshot = await table.stream("SUBSCRIBE accounts AS OF AT LEAST 8").next()
            assert snapshot is not None
            assert snapshot.frontier > Timestamp(8)

    run(test)


def test_a_snapshot_at_up_to_shows_nothing_and_is_the_end() -> None:
    async def test() -> None:
        async with memory_table(one_a_time(range(1, 10)), Timestamp(3)) as table:
            await read_to(table, 4)
            stream = table.stream("SUBSCRIBE accounts UP TO 5")
            await read_to(table, 5)
            last = await stream.next()
            assert last is not None
            assert (last.rows, last.is_last) == ((), True)
            assert await stream.next() is None

    run(test)

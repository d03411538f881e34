"""Several tables at one cut on a real broker: one frontier, one snapshot, one token."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from stack.kafka import KafkaBroker
from tests.unit.client.subscribe.hand_feed import OPTIONS, TRANSFERS, HandFeed, account, next_of
from tidegate.client.subscribe import DeliveredJointBatch, LiveJointSubscription, subscribe_together
from tidegate.client.subscribe.spill_files import SpillSettings
from tidegate.client.subscribe.state.file_checkpoints import FileCheckpoints
from tidegate.errors import HistoryLost, InputError, TokenRefused
from tidegate.hlc import Timestamp

pytestmark = pytest.mark.broker

BOTH: Final = {"accounts": "SUBSCRIBE accounts", "moves": "SUBSCRIBE transfers ENVELOPE UPSERT (KEY (id))"}


@pytest.fixture
def accounts(broker: KafkaBroker, topic_prefix: str) -> HandFeed:
    return HandFeed(broker.bootstrap, topic_prefix)


@pytest.fixture
def transfers(broker: KafkaBroker, accounts: HandFeed) -> HandFeed:
    return HandFeed(
        broker.bootstrap, accounts.prefix, 1, descriptors=(TRANSFERS.descriptor,), beside=accounts
    )


def opened(feed: HandFeed, statements: Mapping[str, str] = BOTH, **more: Any) -> LiveJointSubscription:
    """A joint subscription of the feed's application."""
    return subscribe_together(
        statements, feed.connection, app_id=feed.app_id, topic_prefix=feed.prefix, **more
    )


def values(batch: DeliveredJointBatch) -> dict[str, list[tuple[Any, ...]]]:
    """The rows of each member, with plain times."""
    return {name: [(row[0].wall, *row[1:]) for row in each.rows] for name, each in batch.members.items()}


def test_a_batch_is_complete_up_to_one_frontier_in_all_tables(
    accounts: HandFeed, transfers: HandFeed
) -> None:
    accounts.write(0, 5, 1, account(1, 10))
    accounts.mark(8)
    transfers.write(0, 6, 7, {"id": 7, "amount": 3})
    transfers.write(0, 9, 8, {"id": 8, "amount": 4})
    transfers.mark(12)
    with opened(accounts) as subscription:
        assert subscription.as_of == Timestamp(8)  # where both tables are complete
        assert subscription.headers["moves"] == ("mz_timestamp", "mz_state", "id", "amount")
        snapshot = next_of(subscription)
        assert snapshot.is_snapshot
        assert values(snapshot) == {"accounts": [(8, 1, 1, 10, "")], "moves": [(8, "upsert", 7, 3)]}
        assert subscription.next(0.5) is None  # transfers wait for accounts
        accounts.write(1, 9, 2, account(2, 20))
        accounts.mark(12)
        later = next_of(subscription)
        assert values(later) == {"accounts": [(9, 1, 2, 20, "")], "moves": [(9, "upsert", 8, 4)]}
        assert {each.frontier for each in snapshot.members.values()} == {snapshot.frontier}
        accounts.write(0, 14, 1, account(1, 7), account(1, 10))
        accounts.mark(20)
        transfers.write(0, 14, 9, {"id": 9, "amount": 3})
        transfers.mark(15)
        together = next_of(subscription)
        assert together.frontier == Timestamp(15).next()
        assert values(together) == {
            "accounts": [(14, -1, 1, 10, ""), (14, 1, 1, 7, "")],
            "moves": [(14, "upsert", 9, 3)],
        }
        assert together["moves"].dicts()[0]["amount"] == 3
        assert subscription.figures().output == "joint"
        assert subscription.figures().rows == 4 + 3


def test_a_joint_token_goes_on_where_a_table_was_ahead(accounts: HandFeed, transfers: HandFeed) -> None:
    accounts.mark(5)
    transfers.mark(5)
    accounts.write(0, 7, 1, account(1, 10))
    accounts.mark(9)  # ahead of transfers: its row waits, and is in no batch yet
    with opened(accounts) as subscription:
        batch = next_of(subscription)
        assert (batch.frontier, values(batch)) == (Timestamp(5).next(), {"accounts": [], "moves": []})
        token = str(batch.token)
    transfers.write(0, 7, 7, {"id": 7, "amount": 3})
    transfers.mark(9)
    for _ in range(2):
        with opened(accounts, token=token) as resumed:
            assert values(next_of(resumed)) == {
                "accounts": [(7, 1, 1, 10, "")],
                "moves": [(7, "upsert", 7, 3)],
            }
    with pytest.raises(TokenRefused):
        opened(accounts, {"accounts": BOTH["accounts"]}, token=token)
    with pytest.raises(TokenRefused):
        opened(accounts, {**BOTH, "moves": "SUBSCRIBE transfers"}, token=token)


def test_a_joint_snapshot_in_chunks_comes_again_unless_its_last_token_is_stored(
    accounts: HandFeed, transfers: HandFeed
) -> None:
    rows = 10_000
    for key in range(rows):
        accounts.write(key % 2, 5, key, account(key, key, "n" * 200))
        transfers.write(0, 5, key, {"id": key, "amount": key})
    for feed in (accounts, transfers):
        feed.mark(7)
    small = SpillSettings(memory_bytes=0)
    with opened(accounts, snapshot_chunks=True, spill=small) as subscription:
        chunk = next_of(subscription)
        assert (chunk.is_partial, chunk.is_snapshot, chunk.token) == (True, False, None)
        subscription.settle(chunk)  # which says nothing
    with opened(accounts, snapshot_chunks=True, spill=small) as subscription:
        chunks: list[DeliveredJointBatch] = []
        while not chunks or chunks[-1].is_partial:
            chunks.append(next_of(subscription))
        *partial, last = chunks
        assert all(len(each.members) == 1 for each in partial)
        assert {name for each in partial for name in each.members} == {*BOTH}
        assert (last.is_snapshot, values(last)) == (True, {"accounts": [], "moves": []})
        shown = {
            name: [row for each in partial if name in each.members for row in each[name].rows]
            for name in BOTH
        }
        assert sorted(row[2] for row in shown["accounts"]) == [*range(rows)]
        assert sorted(row[2] for row in shown["moves"]) == [*range(rows)]
        assert {row[0] for name in BOTH for row in shown[name]} == {Timestamp(7)}
        assert subscription.figures().spilled_bytes == 0
    accounts.write(0, 8, 1, None, account(1, 1, "n" * 200))
    for feed in (accounts, transfers):
        feed.mark(9)
    with opened(accounts, token=str(last.token), snapshot_chunks=True) as resumed:
        change = next_of(resumed)
        assert not change.is_partial
        assert values(change) == {"accounts": [(8, -1, 1, 1, "n" * 200)], "moves": []}


def test_a_statement_with_an_order_comes_whole_beside_chunks(accounts: HandFeed, transfers: HandFeed) -> None:
    for key in range(4):
        accounts.write(key % 2, 5, key, account(key, 10 - key))
        transfers.write(0, 5, key, {"id": key, "amount": key})
    for feed in (accounts, transfers):
        feed.mark(7)
    statements = {**BOTH, "accounts": "SUBSCRIBE accounts WITHIN TIMESTAMP ORDER BY balance"}
    with opened(accounts, statements, snapshot_chunks=True) as subscription:
        first, last = next_of(subscription), next_of(subscription)
        assert (first.is_partial, [*first.members]) == (True, ["moves"])
        assert [row[3] for row in last["accounts"].rows] == [7, 8, 9, 10]
        assert last.is_snapshot
    limited = {**BOTH, "accounts": "SUBSCRIBE (SELECT id FROM accounts ORDER BY id LIMIT 2)"}
    with opened(accounts, limited, snapshot_chunks=True) as subscription:
        assert next_of(subscription).is_snapshot  # one that keeps all rows has the others whole, too


def test_one_checkpoint_holds_all_tables(accounts: HandFeed, transfers: HandFeed, tmp_path: Path) -> None:
    for feed in (accounts, transfers):
        feed.mark(5)
    store = FileCheckpoints(tmp_path)
    told: list[str] = []

    def told_as(kind: str) -> Any:
        return lambda batch: told.append(f"{kind} {sum(len(each.rows) for each in batch.members.values())}")

    statements = {name: f"{text} UP TO 10" for name, text in BOTH.items()}
    accounts.write(0, 6, 1, account(1, 10))
    for feed in (accounts, transfers):
        feed.mark(7)
    with opened(accounts, statements) as subscription:
        batch = next_of(subscription)
        store.acquire("joint").commit(str(batch.token))
    for feed in (accounts, transfers):
        feed.mark(11)
    held = store.acquire("joint")
    with opened(accounts, statements, token=held.token or "") as subscription:
        subscription.deliver(told_as("snapshot"), told_as("update"), held)
    assert told == ["update 0"]
    token = store.acquire("joint").token
    assert token != held.token
    with opened(accounts, token=token) as resumed:
        assert next_of(resumed).frontier == Timestamp(11).next()


def test_two_statements_about_one_table_read_it_once(accounts: HandFeed) -> None:
    accounts.write(0, 5, 1, account(1, 10))
    accounts.write(1, 5, 2, account(2, 99))
    accounts.mark(8)
    rich = "SUBSCRIBE (SELECT id FROM accounts WHERE balance > 50)"
    with opened(accounts, {"all": "SUBSCRIBE accounts", "rich": rich}) as subscription:
        assert values(next_of(subscription)) == {
            "all": [(8, 1, 1, 10, ""), (8, 1, 2, 99, "")],
            "rich": [(8, 1, 2)],
        }


def test_rows_by_key_of_all_tables_go_back_to_the_joint_token(
    broker: KafkaBroker, topic_prefix: str, tmp_path: Path
) -> None:
    plain = replace(OPTIONS, diff=False)
    accounts = HandFeed(broker.bootstrap, topic_prefix, options=plain)
    transfers = HandFeed(broker.bootstrap, topic_prefix, 1, plain, (TRANSFERS.descriptor,), beside=accounts)
    statements = {"a/b": "SUBSCRIBE accounts", "moves": "SUBSCRIBE transfers"}

    def commit(wall: int, balance: int, amount: int) -> None:
        """Write a row of each table at one time, and markers after it."""
        after = f'{{"id": 1, "balance": {balance}, "note": ""}}'
        accounts.put(0, b"[1]", f'{{"after": {after}, "updated": "{wall}.0000000000"}}'.encode(), wall)
        after = f'{{"id": 1, "amount": {amount}}}'
        transfers.put(0, b"[1]", f'{{"after": {after}, "updated": "{wall}.0000000000"}}'.encode(), wall)
        accounts.mark(wall + 1)
        transfers.mark(wall + 1)

    commit(5, 10, 1)
    with opened(accounts, statements, key_tables=tmp_path) as subscription:
        stored = next_of(subscription)
        subscription.settle(stored)
        commit(8, 11, 2)
        lost = next_of(subscription)  # its token is not stored: the consumer dies
        while lost.frontier < Timestamp(9).next():
            lost = next_of(subscription)
    with opened(accounts, statements, token=str(stored.token), key_tables=tmp_path) as resumed:
        assert values(next_of(resumed)) == {
            "a/b": [(8, -1, 1, 10, ""), (8, 1, 1, 11, "")],
            "moves": [(8, -1, 1, 1), (8, 1, 1, 2)],
        }
    with pytest.raises(HistoryLost, match="rows by key are gone"):
        opened(accounts, statements, token=str(stored.token))
    with opened(accounts, statements, token=str(stored.token), on_history_lost="resnapshot") as anew:
        batch = next_of(anew)
        assert batch.is_snapshot
        assert batch.loss is not None
        assert batch.loss == batch["moves"].loss


@pytest.mark.parametrize("aside", ["one", "both"])
def test_markers_aside_count_for_the_tables_that_have_them(
    broker: KafkaBroker, topic_prefix: str, aside: str
) -> None:
    """Feeds may share a topic of markers, or have markers among their rows."""
    with_side = replace(OPTIONS, resolved_topic=f"{topic_prefix}resolved")
    accounts = HandFeed(broker.bootstrap, topic_prefix, 1, with_side)
    transfers = HandFeed(
        broker.bootstrap,
        topic_prefix,
        1,
        with_side if aside == "both" else OPTIONS,
        (TRANSFERS.descriptor,),
        beside=accounts,
    )

    def mark(wall: int, rows: int) -> None:
        """Say that both tables are complete, which have so many rows."""
        if aside == "both":
            accounts.mark_aside(wall, {accounts.topic: rows, transfers.topic: rows})
        else:
            accounts.mark_aside(wall, {accounts.topic: rows})
            transfers.mark(wall)

    accounts.write(0, 5, 1, account(1, 10))
    transfers.write(0, 5, 7, {"id": 7, "amount": 3})
    accounts.flush()
    transfers.flush()
    mark(8, 1)
    with opened(accounts, {name: f"{text} AS OF 6" for name, text in BOTH.items()}) as subscription:
        snapshot = next_of(subscription)
        assert snapshot.frontier == Timestamp(8).next()
        assert values(snapshot) == {"accounts": [(6, 1, 1, 10, "")], "moves": [(6, "upsert", 7, 3)]}
    accounts.write(0, 9, 1, account(1, 7), account(1, 10))
    transfers.write(0, 9, 8, {"id": 8, "amount": 3})
    accounts.flush()
    transfers.flush()
    mark(12, 2)
    with opened(accounts, token=str(snapshot.token)) as resumed:
        batch = next_of(resumed)
        assert batch.frontier == Timestamp(12).next()
        assert [len(each.rows) for each in batch.members.values()] == [2, 1]


def test_async_for_gives_joint_batches(accounts: HandFeed, transfers: HandFeed) -> None:
    accounts.mark(11)
    transfers.mark(11)

    async def consume() -> list[bool]:
        statements = {name: f"{text} AS OF 5 UP TO 10" for name, text in BOTH.items()}
        async with opened(accounts, statements) as subscription:
            return [batch.is_last async for batch in subscription]

    assert asyncio.run(consume()) == [True]


@pytest.mark.parametrize(
    ("more", "told"),
    [("AS OF 5", "AS OF"), ("UP TO 50", "UP TO"), ("WITH (SNAPSHOT = false)", "SNAPSHOT")],
)
def test_statements_with_different_bounds_are_refused(accounts: HandFeed, more: str, told: str) -> None:
    accounts.mark(8)
    statements = {"one": "SUBSCRIBE accounts", "other": f"SUBSCRIBE accounts {more}"}
    with pytest.raises(InputError, match=f"differ in {told}"):
        opened(accounts, statements)


def test_no_statements_are_refused(accounts: HandFeed) -> None:
    with pytest.raises(InputError, match="without statements"):
        opened(accounts, {})

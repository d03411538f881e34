"""A table whose columns change while a subscription is open, on a real broker."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import pytest

from stack.kafka import KafkaBroker
from tests.hand_log import HandTable, at
from tests.unit.client.subscribe.hand_feed import COMES_S, OPTIONS, HandFeed, account, next_of, opened
from tidegate.client.subscribe import subscribe_together
from tidegate.errors import SchemaMismatch, TokenRefused
from tidegate.rows.descriptor import TableDescriptor

pytestmark = pytest.mark.broker

_FIRST: Final = HandTable.of(104, "accounts", "id INT, balance INT").descriptor
_NOTED: Final = replace(
    HandTable.of(104, "accounts", "id INT, balance INT, note STRING").descriptor, version=2, modified=at(10)
)
_DROPPED: Final = replace(_FIRST, version=3, modified=at(20))
_STATEMENTS: Final = ("SUBSCRIBE accounts", "SUBSCRIBE accounts ENVELOPE UPSERT (KEY (id))")


def wall_of(version: TableDescriptor) -> int:
    """The time from which the version is valid."""
    return version.modified.wall


@pytest.fixture
def feed(broker: KafkaBroker, topic_prefix: str) -> HandFeed:
    """A feed of a table with two versions, whose row is of the second one."""
    made = HandFeed(broker.bootstrap, topic_prefix, options=OPTIONS, descriptors=(_FIRST, _NOTED))
    made.write(0, wall_of(_NOTED), 1, account(1, 10, "x"))
    made.mark(wall_of(_NOTED))
    return made


def drop_the_note(feed: HandFeed, row: dict[str, Any] | None) -> None:
    """Have a worker write a row of the third version, with the row before as it reads it."""
    feed.describe(_DROPPED)
    feed.write(0, wall_of(_DROPPED), 1, row, {"id": 1, "balance": 10})
    feed.mark(wall_of(_DROPPED))


@pytest.mark.parametrize("row", [None, {"id": 1, "balance": 11}], ids=["deleted", "updated"])
@pytest.mark.parametrize("statement", _STATEMENTS)
def test_a_column_that_came_later_is_dropped_under_an_open_subscription(
    feed: HandFeed, statement: str, row: dict[str, Any] | None
) -> None:
    with opened(feed, statement) as subscription:
        snapshot = next_of(subscription)
        drop_the_note(feed, row)
        for _ in range(2):
            with pytest.raises(SchemaMismatch, match="new columns: none; missing columns: note"):
                subscription.next(COMES_S)
    with pytest.raises(TokenRefused):
        opened(feed, statement, token=str(snapshot.token))
    with opened(feed, statement) as anew:
        assert [each[2:] for each in next_of(anew).rows] == ([] if row is None else [(1, 11)])


def test_all_members_end_with_it(feed: HandFeed) -> None:
    statements = dict(zip(("diffs", "rows"), _STATEMENTS, strict=True))
    with subscribe_together(
        statements, feed.connection, app_id=feed.app_id, topic_prefix=feed.prefix
    ) as subscription:
        assert [each[2:] for each in next_of(subscription)["diffs"].rows] == [(1, 10, "x")]
        drop_the_note(feed, None)
        with pytest.raises(SchemaMismatch, match="missing columns: note"):
            subscription.next(COMES_S)

"""Opens subscriptions by their statements: the entry for programs.

with subscribe("SUBSCRIBE accounts ENVELOPE UPSERT (KEY (id))", KafkaConnection("127.0.0.1:9092")) as rows:
    for batch in rows:
        ...  # apply batch.rows and store str(batch.token) together
"""

from __future__ import annotations

import time
from pathlib import Path

from tidegate.changefeed.definition.feed import feed_id
from tidegate.client.kafka.connection import KafkaConnection
from tidegate.client.subscribe.feed_catalog import FeedCatalog
from tidegate.client.subscribe.live_subscription import LiveSubscription
from tidegate.subscribe.outputs.dialect import Dialect
from tidegate.subscribe.plan import plan_subscribe
from tidegate.subscribe.statement.parser import parse_subscribe
from tidegate.subscribe.statement.statement import SubscribeStatement
from tidegate.subscribe.statement.switches import ALL_ON, SubscribeSwitches
from tidegate.subscribe.updates.relation import Relations


def subscribe(
    statement: str | SubscribeStatement,
    connection: KafkaConnection | None = None,
    *,
    app_id: str = "tidegate",
    topic_prefix: str = "",
    feed: str = "",
    token: str = "",
    dialect: Dialect = Dialect.TIDEGATE,
    key_table: Path | None = None,
    track_keys: bool = False,
    switches: SubscribeSwitches = ALL_ON,
) -> LiveSubscription:
    """Open the subscription of a statement.

    Args:
        statement: a SUBSCRIBE, as text or from `subscribe_statement`.
        connection: to the workers' cluster; by default a broker on this machine.
        app_id: the application whose feeds are read.
        topic_prefix: the prefix of the log topic, which has the tables' columns.
        feed: the id of the feed to read, where several have the table.
        token: the text of a stored token: the subscription goes on behind its batch.
        dialect: whose habits the output follows.
        key_table: a directory for the rows by key, where records do not tell the row before; by default they
            are in memory, and a resume is refused.
        track_keys: whether a key_violation lasts until the key has one row or none.
        switches: which outputs statements may ask for, where other people write them.

    Raises ``SubscribeStatementError`` for a statement that cannot be carried out, and as `FeedCatalog` and
    `LiveSubscription` do.
    """
    parsed = parse_subscribe(statement) if isinstance(statement, str) else statement
    catalog = FeedCatalog(connection or KafkaConnection(), app_id, topic_prefix)
    table = catalog.table(parsed, feed_id(feed) if feed else None)
    plan = plan_subscribe(parsed, Relations([table.relation]), time.time_ns(), dialect, switches)
    return LiveSubscription(table, plan, token, key_table, track_keys=track_keys)

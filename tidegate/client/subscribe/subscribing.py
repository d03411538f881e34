"""Opens subscriptions by their statements: the entry for programs.

with subscribe("SUBSCRIBE accounts ENVELOPE UPSERT (KEY (id))", KafkaConnection("127.0.0.1:9092")) as rows:
    for batch in rows:
        ...  # apply batch.rows and store str(batch.token) together
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

from tidegate.changefeed.definition.feed import feed_id
from tidegate.client.kafka.connection import KafkaConnection
from tidegate.client.subscribe.feed_catalog import FeedCatalog
from tidegate.client.subscribe.history_policy import HistoryPolicy, history_policy
from tidegate.client.subscribe.live_joint_subscription import LiveJointSubscription
from tidegate.client.subscribe.live_subscription import LiveSubscription
from tidegate.client.subscribe.shared_reading import PlannedTable
from tidegate.client.subscribe.spill_files import SpillSettings
from tidegate.subscribe.outputs.dialect import Dialect, read_dialect
from tidegate.subscribe.plan import plan_subscribe
from tidegate.subscribe.statement.parser import parse_subscribe
from tidegate.subscribe.statement.statement import SubscribeStatement
from tidegate.subscribe.statement.switches import ALL_ON, SubscribeSwitches
from tidegate.subscribe.subscription import needs_key_rows
from tidegate.subscribe.updates.relation import Relations


def subscribe(
    statement: str | SubscribeStatement,
    connection: KafkaConnection | None = None,
    *,
    app_id: str = "tidegate",
    topic_prefix: str = "",
    feed: str = "",
    token: str = "",
    dialect: Dialect | str = Dialect.TIDEGATE,
    key_table: Path | None = None,
    track_keys: bool = False,
    switches: SubscribeSwitches = ALL_ON,
    on_history_lost: HistoryPolicy | str = HistoryPolicy.STALL,
    spill: SpillSettings | None = None,
    snapshot_chunks: bool = False,
    columnar: bool = False,
) -> LiveSubscription:
    """Open the subscription of a statement.

    Args:
        statement: a SUBSCRIBE, as text or from `subscribe_statement`.
        connection: to the workers' cluster; by default a broker on this machine.
        app_id: the application whose feeds are read.
        topic_prefix: the prefix of the log topic, which has the tables' columns.
        feed: the id of the feed to read; needed if several feeds have the table.
        token: the text of a stored token: the subscription goes on after its batch.
        dialect: the product whose form the output has: ``tidegate`` or ``materialize``.
        key_table: a directory for the rows by key, which are needed if records do not tell the row before. By
            default these rows are in memory, and a resume is refused.
        track_keys: whether a key_violation lasts until the key has one row or none.
        switches: the outputs that statements may ask for, if other people write the statements.
        on_history_lost: ``stall``, ``resnapshot`` or ``skip`` (`history_policy`).
        spill: how much memory rows may take that wait for other partitions, and where the rest of them goes.
        snapshot_chunks: whether the snapshot may come in several batches, of which all but the last are
            ``is_partial`` and have no token. A statement whose snapshot has to be whole gives one batch.
        columnar: whether batches are wanted as Arrow, polars or pandas. Then rows are read as columns if the
            statement and its feed allow it, which is faster, and ``batch.rows`` is only made when it is asked
            for.

    Raises ``SubscribeStatementError`` for a statement that cannot be carried out, and as `FeedCatalog` and
    `LiveSubscription` do.
    """
    dialect, policy = read_dialect(dialect), history_policy(on_history_lost)
    parsed = parse_subscribe(statement) if isinstance(statement, str) else statement
    catalog = FeedCatalog(connection or KafkaConnection(), app_id, topic_prefix)
    table = catalog.table(parsed, feed_id(feed) if feed else None)
    plan = plan_subscribe(parsed, Relations([table.relation]), time.time_ns(), dialect, switches)
    return LiveSubscription(
        table,
        plan,
        token,
        key_table,
        track_keys=track_keys,
        on_history_lost=policy,
        spill=spill,
        snapshot_chunks=snapshot_chunks,
        columnar=columnar,
    )


def subscribe_together(
    statements: Mapping[str, str | SubscribeStatement],
    connection: KafkaConnection | None = None,
    *,
    app_id: str = "tidegate",
    topic_prefix: str = "",
    feeds: Mapping[str, str] | None = None,
    token: str = "",
    dialect: Dialect | str = Dialect.TIDEGATE,
    key_tables: Path | None = None,
    switches: SubscribeSwitches = ALL_ON,
    on_history_lost: HistoryPolicy | str = HistoryPolicy.STALL,
    spill: SpillSettings | None = None,
    snapshot_chunks: bool = False,
    columnar: bool = False,
) -> LiveJointSubscription:
    """Open the subscriptions of several statements at one cut: each batch has all of them, at one frontier.

    Args:
        statements: SUBSCRIBE statements by names that you choose, all with the same AS OF, UP TO and
            SNAPSHOT.
        connection, app_id, topic_prefix, dialect, switches, on_history_lost, spill, columnar: as for
            `subscribe`.
        snapshot_chunks: as for `subscribe`; a chunk has rows of one statement.
        feeds: by a statement's name, the id of the feed to read. A statement needs it if several feeds have
            its table.
        token: the text of a stored joint token: all statements go on after its batch.
        key_tables: a directory. A statement whose records do not tell the row before keeps its rows by key
            there, in a directory of its own. By default these rows are in memory, and a resume is refused.

    Raises as `subscribe` does, and ``InputError`` for statements that cannot be read together.
    """
    dialect, policy = read_dialect(dialect), history_policy(on_history_lost)
    catalog = FeedCatalog(connection or KafkaConnection(), app_id, topic_prefix)
    now_ns = time.time_ns()  # one for all: times before now are the same in each statement
    members: dict[str, PlannedTable] = {}
    for name, statement in statements.items():
        parsed = parse_subscribe(statement) if isinstance(statement, str) else statement
        feed = (feeds or {}).get(name, "")
        table = catalog.table(parsed, feed_id(feed) if feed else None)
        plan = plan_subscribe(parsed, Relations([table.relation]), now_ns, dialect, switches)
        needs_rows = needs_key_rows(plan, tells_before=table.tells_before)
        directory = key_tables / quote(name, safe="") if key_tables is not None and needs_rows else None
        members[name] = PlannedTable(table, plan, directory, in_chunks=snapshot_chunks, columnar=columnar)
    return LiveJointSubscription(members, token, on_history_lost=policy, spill=spill)

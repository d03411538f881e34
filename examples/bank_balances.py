"""The sum of a bank's balances, which never changes: transfers move money, and batches have whole transfers.

    python -m examples.bank_balances --column balance accounts

A transfer changes two rows in one transaction. They stand on different partitions, and arrive in any order. A
consumer that applied each row as it comes would see money vanish and come back. A subscription gives all rows
of one commit timestamp together: so the sum is right after each timestamp, not only after each batch.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from contextlib import suppress
from decimal import Decimal
from typing import Any, NamedTuple

from tidegate.client.kafka.connection import KafkaConnection
from tidegate.client.subscribe import subscribe
from tidegate.hlc import Timestamp
from tidegate.subscribe import SubscriptionBatch, subscribe_statement
from tidegate.subscribe.updates.update import RowValues


class Balance(NamedTuple):
    """The sum of all accounts at one time, and how many rows of diffs have come up to then."""

    at: Timestamp
    total: Decimal | int
    changes: int


def balances(batches: Iterable[SubscriptionBatch]) -> Iterator[Balance]:
    """Yield the sum after each timestamp of some batches of diffs, whose rows are (mz_timestamp, mz_diff,
    balance).

    A change of a balance is two diffs: one takes the old balance away, the other adds the new one.
    """
    total: Decimal | int = 0
    changes = 0
    for batch in batches:
        for at, rows in _by_time(batch.rows):
            total += sum(diff * balance for _, diff, balance in rows)
            changes += len(rows)
            yield Balance(at, total, changes)


def _by_time(rows: Iterable[RowValues]) -> Iterator[tuple[Timestamp, list[RowValues]]]:
    """Yield each timestamp with all of its rows. ``rows`` are in the order of their timestamps."""
    at: Any = None
    together: list[RowValues] = []
    for row in rows:
        if row[0] != at and together:
            yield at, together
            together = []
        at = row[0]
        together.append(row)
    if together:
        yield at, together


def watch(connection: KafkaConnection, table: str, column: str, **feed: Any) -> Iterator[Balance]:
    """Yield the sum of a column after each timestamp, from the snapshot on; ``feed`` is given to
    ``subscribe``.

    Equal balances of several accounts are one row with a higher diff, so no key is asked for.
    """
    query = f"(SELECT {column} FROM {table} WHERE {column} IS NOT NULL)"  # noqa: S608 - it reads one topic
    statement = subscribe_statement(query)
    with subscribe(statement, connection, **feed) as subscription:
        yield from balances(subscription)


def main() -> None:
    """Read the command line, and print the sum when it changes."""
    parser = argparse.ArgumentParser(description="Watch the sum of a column, which is never a half one.")
    parser.add_argument("-b", "--bootstrap-servers", default="127.0.0.1:9092")
    parser.add_argument("--app-id", default="tidegate")
    parser.add_argument("--topic-prefix", default="", help="prefix of the log topic")
    parser.add_argument("--column", default="balance")
    parser.add_argument("table")
    given = parser.parse_args()
    connection = KafkaConnection(given.bootstrap_servers)
    known = {"app_id": given.app_id, "topic_prefix": given.topic_prefix}
    last: Decimal | int | None = None
    with suppress(KeyboardInterrupt):
        for balance in watch(connection, given.table, given.column, **known):
            if balance.total != last:
                print(f"{balance.at}: {balance.total} after {balance.changes} changes", flush=True)
            last = balance.total


if __name__ == "__main__":
    main()

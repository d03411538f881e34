"""A consumer that only ever sees consistent snapshots.

    python examples/consistent_consumer.py -b 127.0.0.1:9092 --sum balance accounts

Rows of one transaction are spread over partitions and topics and arrive in any order. A marker at T says
that its partition has shown every row up to T; the lowest marker over all partitions says the same of all
of them. So rows are kept back until that minimum has passed them, and then applied in the order of their
timestamps: what the tables hold after that is what they held in the store at that timestamp.

A row at or below the marker of its own partition is not dropped for that: it is kept and sorted in. Only at
or below the minimum that was already applied is it known to be a repeat. (The rule is that of TiCDC's
reference consumer, cmd/kafka-consumer; dropping rows by a higher watermark lost data there.)
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, TypeAlias

from confluent_kafka import Consumer

from tidegate.changefeed.encoding.json_decoder import parse_record
from tidegate.changefeed.encoding.record import MarkerRecord
from tidegate.hlc import ZERO, Timestamp

#: (topic, partition)
Place: TypeAlias = tuple[str, int]


class Change(NamedTuple):
    """A row version; ``row`` is ``None`` for a deletion. Changes sort by timestamp first."""

    timestamp: Timestamp
    topic: str
    key: bytes
    row: Mapping[str, Any] | None


class Gate:
    """Keeps changes back until every partition is complete up to their timestamp."""

    def __init__(self, places: Iterable[Place]) -> None:
        self._markers = dict.fromkeys(places, ZERO)
        self._waiting: dict[tuple[Timestamp, str, bytes], Change] = {}
        self.opened = ZERO

    def add(self, change: Change) -> None:
        """Take a change; a repeat of one that waits, or was let through, changes nothing."""
        if change.timestamp > self.opened:
            self._waiting[change[:3]] = change

    def marker(self, place: Place, resolved: Timestamp) -> list[Change]:
        """Take a marker; returns the changes that are complete now, in the order of their timestamps."""
        self._markers[place] = max(self._markers[place], resolved)
        lowest = min(self._markers.values())
        if lowest <= self.opened:
            return []
        self.opened = lowest
        complete = sorted(version for version in self._waiting if version[0] <= lowest)
        return [self._waiting.pop(version) for version in complete]


class Tables:
    """The rows of every topic's table, by key."""

    def __init__(self) -> None:
        self.rows: dict[str, dict[bytes, Mapping[str, Any]]] = {}

    def apply(self, changes: Iterable[Change]) -> None:
        """Apply changes in their order."""
        for change in changes:
            table = self.rows.setdefault(change.topic, {})
            if change.row is None:
                table.pop(change.key, None)
            else:
                table[change.key] = change.row

    def summary(self, column: str | None) -> str:
        """The number of rows of each table, and the sum of a column."""
        parts = [f"{topic}: {len(table)} rows" for topic, table in sorted(self.rows.items())]
        if column is not None:
            values = (row.get(column) or 0 for table in self.rows.values() for row in table.values())
            parts.append(f"sum({column}) = {sum(values)}")
        return ", ".join(parts)


def consume(bootstrap_servers: str, group: str, topics: list[str], column: str | None) -> None:
    """Print a line for every snapshot, until interrupted.

    The tables are kept in memory, so nothing is committed: a new start, and a new assignment, read from the
    beginning. One member must have all partitions, so a group here has one member.
    """
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
        }
    )
    gate, tables = Gate(()), Tables()

    def assigned(_: Consumer, partitions: list[Any]) -> None:
        nonlocal gate, tables
        gate, tables = Gate((each.topic, each.partition) for each in partitions), Tables()

    consumer.subscribe(topics, on_assign=assigned)
    try:
        while True:
            for message in consumer.consume(1_000, timeout=0.5):
                if message.error() is not None:
                    raise SystemExit(message.error().str())
                complete = take(gate, message)
                if complete:
                    tables.apply(complete)
                    print(f"{gate.opened}: {tables.summary(column)}")
    except KeyboardInterrupt:
        pass
    finally:
        consumer.close()


def take(gate: Gate, message: Any) -> list[Change]:
    """Give a message to the gate; returns the changes that it completes."""
    record = parse_record(message.key(), message.value(), headers=message.headers() or ())
    if isinstance(record, MarkerRecord):
        return gate.marker((message.topic(), message.partition()), record.resolved)
    if record.oversize_bytes:
        raise SystemExit(
            f"The row {message.key()!r} was too large for its topic, and is not in its record: fetch the "
            f"version {record.mvcc_timestamp} from the source, or raise the feed's max_row_bytes."
        )
    if record.updated is None:
        raise SystemExit("The rows have no timestamp: create the feed WITH updated.")
    gate.add(Change(record.updated, message.topic(), message.key(), record.row))
    return []


def main() -> None:
    """Read the command line and consume."""
    parser = argparse.ArgumentParser(description="Print consistent snapshots of output topics.")
    parser.add_argument("-b", "--bootstrap-servers", default="127.0.0.1:9092")
    parser.add_argument("--group", default="consistent-consumer")
    parser.add_argument("--sum", metavar="COLUMN", help="print the sum of this column over all tables")
    parser.add_argument("topics", nargs="+")
    arguments = parser.parse_args()
    consume(arguments.bootstrap_servers, arguments.group, arguments.topics, arguments.sum)


if __name__ == "__main__":
    main()

"""A consumer that only ever sees consistent snapshots.

    python examples/consistent_consumer.py -b 127.0.0.1:9092 --sum balance accounts

Rows of one transaction are spread over partitions and topics and arrive in any order. A marker at T says
that its partition has shown every row up to T. The lowest of the last markers of all partitions says the same
of all of them. So rows are kept back until that minimum has passed them, and then applied in the order of
their timestamps: what the tables hold after that is what they held in the store at that timestamp.

Tidegate's `RowGate` (docs/subscribe.md) says which rows are new, and what is complete. The rest of a
consumer is here: assignment, tables, and what is shown. `tidegate subscribe` does all of it for one table.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from typing import Any

from confluent_kafka import Consumer

from tidegate.changefeed.definition.options import Envelope
from tidegate.changefeed.encoding.json_decoder import JsonDecoder
from tidegate.client.kafka.record_headers import record_headers
from tidegate.errors import TidegateError
from tidegate.subscribe import FeedPartition, FeedRecord, RowGate
from tidegate.subscribe.gate.feed_record import RowVersion


class Tables:
    """The rows of every topic's table, by key."""

    def __init__(self) -> None:
        self.rows: dict[str, dict[bytes, Mapping[str, Any]]] = {}

    def apply(self, versions: Iterable[RowVersion]) -> None:
        """Apply row versions in their order; one without a row is a deletion."""
        for version in versions:
            table = self.rows.setdefault(version.topic, {})
            if version.record.row is None:
                table.pop(version.key, None)
            else:
                table[version.key] = version.record.row

    def summary(self, column: str | None) -> str:
        """Return the number of rows of each table, and the sum of a column."""
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
    gate, tables = None, Tables()

    def assigned(_: Consumer, partitions: list[Any]) -> None:
        nonlocal gate, tables
        gate, tables = gate_over(FeedPartition(each.topic, each.partition) for each in partitions), Tables()

    consumer.subscribe(topics, on_assign=assigned)
    try:
        while True:
            for message in consumer.consume(1_000, timeout=0.5):
                if message.error() is not None:
                    raise SystemExit(message.error().str())
                if gate is not None and apply_message(gate, tables, message):
                    print(f"{gate.delivered}: {tables.summary(column)}")
    except TidegateError as error:
        raise SystemExit(str(error)) from None
    except KeyboardInterrupt:
        pass
    finally:
        consumer.close()


def gate_over(places: Iterable[FeedPartition]) -> RowGate | None:
    """Return a gate over these partitions, of feeds in the wrapped envelope; ``None`` for no partitions."""
    partitions = list(places)
    decoders = dict.fromkeys((each.topic for each in partitions), JsonDecoder(Envelope.WRAPPED))
    return RowGate(decoders, partitions) if partitions else None


def apply_message(gate: RowGate, tables: Tables, message: Any) -> bool:
    """Give a message to the gate, and apply what it completes. Returns whether there is a new snapshot.

    Raises ``PromiseBroken`` and ``UnreadableRow``, with the place of the record.
    """
    place = FeedPartition(message.topic(), message.partition())
    gate.add_record(
        place, FeedRecord(message.offset(), message.key(), message.value(), record_headers(message))
    )
    opening = gate.open()
    if opening is not None:
        tables.apply(opening.versions)
    return opening is not None


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

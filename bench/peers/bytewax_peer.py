"""Bytewax: a dataflow with a stateful step. ``python -m bench.peers.bytewax_peer`` runs it.

Its state is in memory; snapshots go to its recovery store, SQLite, every ten seconds, which is its default.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

from bench.peers.peer_task import PRODUCER, PeerTask
from bench.peers.row_before import with_row_before

_BATCH_RECORDS: Final = 5_000
_SNAPSHOTS: Final = timedelta(seconds=10)


def add_row_before(before: bytes | None, message: Any) -> tuple[bytes, tuple[bytes, bytes]]:
    """Take a record of one key; the state is the key's newest row. Return the new state, and the record's key
    and value."""
    value, row = with_row_before(message.value, before)
    return row, (message.key, value)


def main() -> None:
    """Run the dataflow until it is stopped."""
    from bytewax import operators
    from bytewax.connectors.kafka import KafkaSink, KafkaSinkMessage, KafkaSource
    from bytewax.dataflow import Dataflow
    from bytewax.recovery import RecoveryConfig, init_db_dir
    from bytewax.run import cli_main

    def as_messages(pairs: list[Any]) -> list[Any]:
        return [KafkaSinkMessage(key, value) for _, (key, value) in pairs]

    task = PeerTask.of()
    # It hands settings to librdkafka as they are, and takes texts.
    producer = {name: str(value).lower() for name, value in PRODUCER.items()}
    flow = Dataflow("peer")
    records = operators.input(
        "read", flow, KafkaSource([task.bootstrap], [task.source], batch_size=_BATCH_RECORDS)
    )
    keyed = operators.flat_map_batch(
        "key", records, lambda some: [(each.key.decode(), each) for each in some]
    )
    rows = operators.stateful_map("row before", keyed, add_row_before)
    messages = operators.flat_map_batch("messages", rows, as_messages)
    operators.output("write", messages, KafkaSink([task.bootstrap], task.target, producer))
    init_db_dir(task.directory, 1)
    cli_main(flow, epoch_interval=_SNAPSHOTS, recovery_config=RecoveryConfig(task.directory))


if __name__ == "__main__":
    main()

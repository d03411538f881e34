"""Quix Streams: a stateful function over a DataFrame. ``python -m bench.peers.quix_peer`` runs it.

Its state is in RocksDB, the only store that it has, with a changelog topic.
"""

from __future__ import annotations

from typing import Any, Final

from bench.peers.peer_task import PRODUCER, PeerTask
from bench.peers.row_before import with_row_before

_ROW: Final = "row"


def add_row_before(value: bytes, state: Any) -> bytes:
    """Return a record with the row before it. The state of its key is the key's newest row."""
    value, row = with_row_before(value, state.get_bytes(_ROW))
    state.set_bytes(_ROW, row)
    return value


def main() -> None:
    """Run the application until it is stopped."""
    from quixstreams import Application

    task = PeerTask.of()
    app = Application(
        broker_address=task.bootstrap,
        consumer_group=task.name,
        auto_offset_reset="earliest",
        state_dir=task.directory,
        producer_extra_config=PRODUCER,
        auto_create_topics=True,
        loglevel="WARNING",
    )
    source = app.topic(task.source, key_deserializer="bytes", value_deserializer="bytes")
    target = app.topic(task.target, key_serializer="bytes", value_serializer="bytes")
    app.dataframe(source).apply(add_row_before, stateful=True).to_topic(target)
    app.run()


if __name__ == "__main__":
    main()

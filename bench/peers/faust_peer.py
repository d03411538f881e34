"""Stock Faust: an agent with a table. ``python -m bench.peers.faust_peer worker --without-web`` runs it.

The table is in memory, which is the faster of its stores, with a changelog topic. ``send_soon`` was not
faster than to await ``send``, which waits for room in a batch and not for the broker.
"""

from __future__ import annotations

from typing import Any, Final

import faust

from bench.peers.peer_task import PeerTask
from bench.peers.row_before import with_row_before

_BYTES: Final[dict[str, Any]] = {"key_type": bytes, "value_type": bytes}


def application(task: PeerTask, partitions: int = 4) -> Any:
    """Return the application with its agent."""
    app = faust.App(
        task.name,
        broker=f"kafka://{task.bootstrap}",
        key_serializer="raw",
        value_serializer="raw",
        store="memory://",
        datadir=task.directory,
        web_enabled=False,
        consumer_auto_offset_reset="earliest",
        topic_disable_leader=True,
        topic_partitions=partitions,
        producer_compression_type="lz4",
        producer_linger_ms=5,
        producer_max_batch_size=256_000,
        broker_max_poll_records=5_000,
        stream_buffer_maxsize=131_072,
        stream_wait_empty=False,
    )
    source, target = app.topic(task.source, **_BYTES), app.topic(task.target, **_BYTES)
    rows = app.Table("rows", partitions=partitions, **_BYTES)

    async def add_row_before(stream: Any) -> None:
        async for event in stream.events():
            value, row = with_row_before(event.value, rows.get(event.key))
            rows[event.key] = row
            await target.send(key=event.key, value=value)

    app.agent(source)(add_row_before)
    return app


def main() -> None:
    """Run a worker, by Faust's own command line, until it is stopped."""
    application(PeerTask.of()).main()


if __name__ == "__main__":
    main()

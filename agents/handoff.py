"""The hand-off agent: brings claims and hand-offs to the ranges of this worker
(docs/protocols/hand-off.md)."""

from __future__ import annotations

from typing import Any

from agents.rangefeed import LogPartitions
from tidegate.worker.log_partition.companions import Companion
from tidegate.worker.shell import Shell


def handoff_agent(app: Shell, partitions: LogPartitions) -> None:
    """Register the agent with the application."""
    holder = Companion(partitions.receive_exchanges)
    app.assignment.hold(app.topic_names.hand_offs, holder)

    @app.agent(app.batch_topic(app.topic_names.hand_offs), name="handoff", concurrency=1)
    async def handoff(stream: Any) -> None:
        await app.deliver(stream, holder.receive_batch)

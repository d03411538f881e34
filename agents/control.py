"""The control agent: brings the jobs agent's messages about feeds to this worker's log partitions."""

from __future__ import annotations

from typing import Any

from agents.rangefeed import LogPartitions
from tidegate.worker.log_partition.companions import Companion
from tidegate.worker.shell import Shell


def control_agent(app: Shell, partitions: LogPartitions) -> None:
    """Register the agent with the application."""
    holder = Companion(partitions.receive_control)
    app.assignment.hold(app.topic_names.control, holder)

    @app.agent(app.batch_topic(app.topic_names.control), name="control", concurrency=1)
    async def control(stream: Any) -> None:
        await app.deliver(stream, holder.receive_batch)

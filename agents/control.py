"""The control agent: what the jobs agent tells this worker's log partitions about feeds.

The control topic has as many partitions as the log, and Faust assigns equal numbers together. A message
goes to the pipeline of its log partition, which takes it up between two batches; where reading begins
after a restart is part of that partition's state.
"""

from __future__ import annotations

from typing import Any

from agents.rangefeed import LogPartitions
from app.fetched import FetchedBatch
from app.shell import Shell


class ControlPartitions:
    """Hands control messages to the log partitions, which do all the rest."""

    def __init__(self, partitions: LogPartitions) -> None:
        self._partitions = partitions

    def assigned(self, partition: int) -> None:
        """The log partition of the same number opens it, once its state is restored."""

    def offer(self, batch: FetchedBatch) -> None:
        """Pass the batch on."""
        self._partitions.offer_control(batch)

    async def released(self) -> None:
        """The log partition lets go of both."""


def control_agent(app: Shell, partitions: LogPartitions) -> None:
    """Register the agent with the application."""
    holder = ControlPartitions(partitions)
    app.assignment.hold(app.topic_names.control, holder)

    @app.agent(app.batch_topic(app.topic_names.control), name="control", concurrency=1)
    async def control(stream: Any) -> None:
        await app.deliver(stream, holder.offer)

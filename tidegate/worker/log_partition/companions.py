"""Topics that have as many partitions as the log, and that are read together with it by the same owner.

Faust assigns partitions of the same number together. Their records go to the commit loop of the log
partition, which takes them up between two batches. Where reading begins after a restart is part of that
partition's state.
"""

from __future__ import annotations

from collections.abc import Callable

from tidegate.worker.kafka.fetched import FetchedBatch


class Companion:
    """The holder of one companion topic. It only gives the topic's batches to the log partitions.

    A log partition opens and releases the companions' partitions of its own number.
    """

    def __init__(self, receive: Callable[[FetchedBatch], None]) -> None:
        self._receive = receive

    def assigned(self, partition: int) -> None:
        """Do nothing: the log partition of the same number opens it, once its state is restored."""

    def receive_batch(self, batch: FetchedBatch) -> None:
        """Pass the batch on to its log partition."""
        self._receive(batch)

    async def released(self) -> None:
        """Do nothing: log partitions release their companions."""

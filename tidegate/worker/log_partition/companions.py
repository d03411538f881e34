"""Topics that have as many partitions as the log, and are read beside it by the same owner.

Faust assigns equal numbers together. What comes goes to the pipeline of the log partition, which takes it up
between two batches; where reading begins after a restart is part of that partition's state.
"""

from __future__ import annotations

from collections.abc import Callable

from tidegate.worker.kafka.fetched import FetchedBatch


class Companion:
    """Hands the batches of such a topic to the log partitions, which do all the rest."""

    def __init__(self, offer: Callable[[FetchedBatch], None]) -> None:
        self._offer = offer

    def assigned(self, partition: int) -> None:
        """The log partition of the same number opens it, once its state is restored."""

    def offer(self, batch: FetchedBatch) -> None:
        """Pass the batch on."""
        self._offer(batch)

    async def released(self) -> None:
        """The log partition lets go of both."""

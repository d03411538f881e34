"""A Kafka broker that lives no longer than the process that started it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from stack.processes.owned import OwnedServer
from stack.recipes.kafka_recipe import Kafka


class KafkaBroker(OwnedServer):
    """A broker of this process.

    Attributes:
        bootstrap: ``host:port`` for clients; the same after every start.
    """

    def __init__(
        self, *, port: int | None = None, data: Path | None = None, settings: Mapping[str, str] | None = None
    ) -> None:
        """Prepare a broker without starting it; ``settings`` are Kafka broker properties.

        Raises:
            StackError: one of the kinds in ``stack/errors.py``.
        """
        super().__init__(Kafka(), port=port, data=data, settings=settings)
        self.bootstrap = self.address

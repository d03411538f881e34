"""Which Kafka cluster a client of librdkafka talks to, and whether that has changed meanwhile.

librdkafka takes whatever cluster answers at an address for the one that it knew, and goes on. It tells of it
in two ways: the metadata that it asks each new connection for has the cluster's id, and where that is another
one than before it logs a line (``CLUSTERID``).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from confluent_kafka import KafkaException

from tidegate.client.kafka.delivery_report import begin_report
from tidegate.errors import RetryError, SinkHeld

_CHANGED: Final = "CLUSTERID"
_POLLS: Final = 2  # one that raises what has ended the client may leave the rest to the next


def _nothing() -> None:
    """Nobody wants to know."""


class ClusterWatch:
    """Of one client, as its ``logger``; what it is told goes on to ``logger``.

    ``cluster_id`` is what the cluster answered last, empty while nothing is certain. ``changed`` is called
    whenever another cluster was seen: between two calls there was one and the same. ``has_changed``: whether
    one was seen at all. Several threads may use the client, and ask.
    """

    def __init__(self, logger: logging.Logger, changed: Callable[[], None] = _nothing) -> None:
        self._logger = logger
        self._changed = changed
        self._last = ""
        self._noting = threading.RLock()  # what a poll has taken, and not told yet, is waited for
        self.cluster_id = ""
        self.has_changed = False

    def log(self, level: int, text: str, *args: Any) -> None:
        """A line of librdkafka, by the thread that polls the client."""
        begin_report()
        if _CHANGED in args[:1]:
            self.cluster_id = self._last = ""
            self._note_change()
        self._logger.log(level, text, *args)

    def ask(self, client: Any, topic: str, timeout_s: float) -> bool:
        """Ask the cluster for its id, by the client itself; whether it has answered."""
        try:
            found = str(client.list_topics(topic, timeout=timeout_s).cluster_id)
        except KafkaException:
            return False
        with self._noting:
            if self._last and found != self._last:
                self._note_change()
            self.cluster_id = self._last = found
        return True

    def is_the_same(self, client: Any, topic: str, timeout_s: float) -> bool:
        """Whether whatever the client was told so far, acknowledgement or refusal, is of one cluster.

        The cluster is asked behind that, then what the client had noticed before its answer is taken in
        (steps 4a to 4c of docs/delivery.md). Without an answer nothing is certain. It may be asked of a
        client that has come to its end.
        """
        return self._id_if_same(client, topic, timeout_s) is not None

    def only_cluster(self, client: Any, topic: str, timeout_s: float, name: str) -> str:
        """The id of the one cluster that the client, ``name``, has talked to all the time.

        It asks as ``is_the_same`` does. Raises ``RetryError`` without an answer, and ``SinkHeld`` once
        another cluster was seen: nobody knows which of the two has told what. Then another client is needed.
        """
        cluster_id = self._id_if_same(client, topic, timeout_s)
        if cluster_id is not None:
            return cluster_id
        if self.has_changed:
            raise SinkHeld(
                f"the address of the sink came to mean another Kafka cluster while {name} talked to it. "
                "What that has answered does not count; a new client asks again"
            )
        raise RetryError("Kafka does not tell its cluster's id")

    def _id_if_same(self, client: Any, topic: str, timeout_s: float) -> str | None:
        """The id of the one cluster so far; ``None`` where there was another, or no answer.

        Another thread may hear of another cluster at any time. So it notes nothing between the two readings.
        """
        if not self.ask(client, topic, timeout_s):
            return None
        with self._noting:
            for _ in range(_POLLS):
                with suppress(KafkaException, SystemError):  # how it has ended is known, or is told again
                    client.poll(0)
            return None if self.has_changed else self.cluster_id

    def _note_change(self) -> None:
        self.has_changed = True
        self._changed()

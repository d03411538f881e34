"""Notices which Kafka cluster a client of librdkafka talks to, and whether that changes.

If another cluster answers at an address, librdkafka goes on with it as if it were the one that it knew. Two
signs tell of such a change. The metadata that librdkafka requests on each new connection has the cluster's
id. And if this id differs from the one before, librdkafka logs a line (``CLUSTERID``).
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
_POLLS: Final = 2  # a poll that raises the client's fatal error may leave the rest to the next poll


def _nothing() -> None:
    """Do nothing when the cluster changes."""


class ClusterWatch:
    """Watches the cluster of one client. It is the client's logger, and passes the lines on to ``logger``.

    ``cluster_id`` is the id that the cluster answered last; it is empty before the first answer, and after a
    change until the next answer. ``changed`` is called whenever another cluster was seen: between two calls
    the client talked to one cluster only. ``has_changed`` says whether another cluster was ever seen. Several
    threads may use the client and this object.
    """

    def __init__(self, logger: logging.Logger, changed: Callable[[], None] = _nothing) -> None:
        self._logger = logger
        self._changed = changed
        self._last = ""
        # a thread waits here until another one's poll has noted what it found
        self._noting = threading.RLock()
        self.cluster_id = ""
        self.has_changed = False

    def log(self, level: int, text: str, *args: Any) -> None:
        """Take a line of librdkafka, in the thread that polls the client."""
        begin_report()
        if _CHANGED in args[:1]:
            self.cluster_id = self._last = ""
            self._note_change()
        self._logger.log(level, text, *args)

    def ask(self, client: Any, topic: str, timeout_s: float) -> bool:
        """Ask the cluster for its id, by the client itself; return whether it has answered."""
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
        """Return whether all acknowledgements and refusals that the client got so far are from one cluster.

        It asks the cluster for its id after all of these, and then takes in what the client had noticed
        before that answer (steps 4a to 4c of docs/protocols/sink-addresses.md). Without an answer it returns
        ``False``. The client may have been ended by a fatal error.
        """
        return self._id_if_same(client, topic, timeout_s) is not None

    def only_cluster(self, client: Any, topic: str, timeout_s: float, name: str) -> str:
        """Return the id of the one cluster that the client, ``name``, has talked to all the time.

        It asks as ``is_the_same`` does. Raises ``RetryError`` without an answer. Raises ``SinkHeld`` once
        another cluster was seen, since it is unknown which of the two answered what; another client is needed
        then.
        """
        cluster_id = self._id_if_same(client, topic, timeout_s)
        if cluster_id is not None:
            return cluster_id
        if self.has_changed:
            raise SinkHeld(
                f"the address of the sink came to mean another Kafka cluster while {name} talked to it. "
                "Answers of either cluster do not count; a new client asks again"
            )
        raise RetryError("Kafka does not tell its cluster's id")

    def _id_if_same(self, client: Any, topic: str, timeout_s: float) -> str | None:
        """Return the id of the one cluster so far; ``None`` if there was another cluster, or no answer.

        Another thread may notice another cluster at any time. So no thread may note anything between the
        answer and the check of ``has_changed``.
        """
        if not self.ask(client, topic, timeout_s):
            return None
        with self._noting:
            for _ in range(_POLLS):
                # why the client has ended is known, or its next call says it
                with suppress(KafkaException, SystemError):
                    client.poll(0)
            return None if self.has_changed else self.cluster_id

    def _note_change(self) -> None:
        self.has_changed = True
        self._changed()

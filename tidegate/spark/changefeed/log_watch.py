"""Notices when the log topic changes under a running query: it is made anew, or gets more partitions.

Spark knows topics by name, and would read on in either case.
"""

from __future__ import annotations

import math
import time
from typing import Final, NamedTuple

from tidegate.client.kafka.topic_admin import TopicAdmin
from tidegate.errors import StateError, TopologyError

_LOOK_AGAIN_S: Final = 5.0


class Log(NamedTuple):
    """The log topic: its partition count, and its id, which no other topic of the same name has."""

    partitions: int
    id: str


class LogWatch:
    """Compares the log topic with ``known``, the log when the query began. It asks once in 5 s at most."""

    def __init__(self, admin: TopicAdmin, topic: str, known: Log) -> None:
        self._admin = admin
        self._topic = topic
        self._known = known
        self._next_s = -math.inf

    def look(self) -> None:
        """Raise ``StateError`` or ``TopologyError`` when the log is another topic or has other partitions.

        Raises ``RetryError`` when the brokers do not answer.
        """
        if time.monotonic() < self._next_s:
            return
        partitions = self._admin.partitions(self._topic)
        if partitions is None or self._admin.ids([self._topic])[self._topic] != self._known.id:
            raise StateError(
                f"The log {self._topic} was deleted{' and created again' if partitions else ''} while the "
                "query ran. It ends, before it takes one topic's offsets for another's; its next start says "
                "what can be done."
            )
        if partitions != self._known.partitions:
            raise TopologyError(
                f"The log {self._topic} has {partitions} partitions, and had {self._known.partitions} when "
                "the query began: ranges are found by that number, so it cannot change under an application. "
                "The query ends, and nothing of the batch is emitted. Start another application on a new "
                "checkpoint directory."
            )
        self._next_s = time.monotonic() + _LOOK_AGAIN_S

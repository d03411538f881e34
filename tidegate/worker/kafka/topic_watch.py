"""Notices a topic that is deleted and created again under a running worker.

The offsets of the new topic, and the raft indexes in a new log, mean something else. Neither Kafka client
notices the change, since both know topics by name. Records that are read in the seconds before the change
is noticed may be wrong (docs/protocols/opening-a-partition.md#topics-that-were-made-anew).
"""

from __future__ import annotations

import threading
from typing import Final

from tidegate.errors import StateError
from tidegate.worker.kafka.topology import Topology, WorkerTopicAdmin
from tidegate.worker.process.ending import end_process

_LOOK_AGAIN_S: Final = 5.0


class TopicWatch:
    """A thread that compares the ids of the worker's topics with the ids at its start, every 5 s."""

    def __init__(self, admin: WorkerTopicAdmin, topology: Topology) -> None:
        self._admin = admin
        self._known = topology.topic_ids
        self._closed = threading.Event()
        threading.Thread(target=self._watch, name="topic-watch", daemon=True).start()

    def close(self) -> None:
        """Stop watching. This does not wait for a comparison that is under way."""
        self._closed.set()

    def _watch(self) -> None:
        try:
            while not self._closed.wait(_LOOK_AGAIN_S):
                self._compare()
        except BaseException as error:  # no other thread would see it
            if not self._closed.is_set():
                end_process(error)

    def _compare(self) -> None:
        found = self._admin.ids(list(self._known))
        changed = sorted(name for name, known in self._known.items() if found[name] != known)
        if changed:
            raise StateError(
                f"{', '.join(changed)}: deleted and created again while the worker ran, or its Kafka address "
                "means another cluster now. The worker ends, before it takes one topic's offsets for "
                "another's. Start it again: it goes on, or says what you can do"
            )

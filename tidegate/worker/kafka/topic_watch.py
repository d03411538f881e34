"""Notices a topic that is deleted and created again under a running worker.

Its offsets, and the raft indexes in a log, then mean something else, and neither client tells: both know
topics by name. What is read in the seconds before it is noticed may be wrong (docs/delivery.md).
"""

from __future__ import annotations

import threading
from typing import Final

from tidegate.errors import StateError
from tidegate.worker.kafka.topology import Topology, WorkerTopicAdmin
from tidegate.worker.process.ending import end_process

_LOOK_AGAIN_S: Final = 5.0


class TopicWatch:
    """Compares the ids of the worker's topics with those of its start, by a thread of its own."""

    def __init__(self, admin: WorkerTopicAdmin, topology: Topology) -> None:
        self._admin = admin
        self._known = topology.topic_ids
        self._closed = threading.Event()
        threading.Thread(target=self._watch, name="topic-watch", daemon=True).start()

    def close(self) -> None:
        """Watch no more; a question that is on its way may still be asked."""
        self._closed.set()

    def _watch(self) -> None:
        try:
            while not self._closed.wait(_LOOK_AGAIN_S):
                self._compare()
        except BaseException as error:  # nobody else would see it
            if not self._closed.is_set():
                end_process(error)

    def _compare(self) -> None:
        found = self._admin.ids(list(self._known))
        changed = sorted(name for name, known in self._known.items() if found[name] != known)
        if changed:
            raise StateError(
                f"{', '.join(changed)}: deleted and created again while the worker ran. It ends, before it "
                "takes one topic's offsets for another's; its next start says what can be done"
            )

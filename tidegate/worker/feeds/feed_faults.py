"""Feeds whose steps of the jobs agent met an exception that nobody foresaw: step U7 of docs/security.md."""

from __future__ import annotations

from typing import Final

import structlog
from confluent_kafka import KafkaException

from tidegate.changefeed.definition.feed import FeedDefinition, FeedEpoch, FeedId
from tidegate.changefeed.lifecycle.control import NO_PARTITION, Failed
from tidegate.processor.containment import feed_error
from tidegate.worker.operations.metrics import INCIDENTS

#: After which a feed that cannot even fail is looked at again.
AGAIN_S: Final = 60.0
_LABEL: Final = "jobs"

_log = structlog.get_logger("tidegate.jobs")


class FeedFaults:
    """Remembers which feeds have failed so: each fails once."""

    def __init__(self) -> None:
        self._failed: set[tuple[FeedId, FeedEpoch]] = set()

    def failure(self, definition: FeedDefinition, error: Exception) -> Failed | None:
        """What a partition would say of the feed that failed; ``None`` where it is only passed over.

        Raises ``error`` where it is of the process's own ground.
        """
        if isinstance(error, KafkaException):  # of a cluster, not of the feed's data
            _log.warning("a step about a feed is taken again", feed=definition.id, cause=str(error))
            return None
        reason = str(feed_error(error))
        INCIDENTS.labels(_LABEL).inc()
        _log.error("a step about a feed broke", feed=definition.id, cause=reason, exc_info=error)
        epoch = definition.id, definition.epoch
        if epoch in self._failed:
            return None
        self._failed.add(epoch)
        return Failed(definition.id, definition.epoch, NO_PARTITION, reason)

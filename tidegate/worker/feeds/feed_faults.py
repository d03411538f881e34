"""Fails feeds at whose steps the jobs agent met an exception that nobody foresaw: U7 of docs/security.md."""

from __future__ import annotations

from typing import Final

import structlog

from tidegate.changefeed.definition.feed import FeedDefinition, FeedEpoch, FeedId
from tidegate.changefeed.lifecycle.control import NO_PARTITION, Failed
from tidegate.errors import SettingsError
from tidegate.processor.containment import feed_error
from tidegate.worker.operations.metrics import INCIDENTS

#: After so many seconds the jobs agent looks again at a feed that could not even be failed.
AGAIN_S: Final = 60.0
_LABEL: Final = "jobs"

_log = structlog.get_logger("tidegate.jobs")


class FeedFaults:
    """The feeds that have failed because of such an exception. Each epoch of a feed fails once."""

    def __init__(self) -> None:
        self._failed: set[tuple[FeedId, FeedEpoch]] = set()

    def failure(self, definition: FeedDefinition, error: Exception) -> Failed | None:
        """Make the message that fails the feed, as a log partition would send it.

        Returns ``None`` where the step is only to be repeated: for a login of the operator's that no client
        can be opened with, and for a feed that has failed already. Raises ``error`` where the process is at
        fault, as for a full disk.
        """
        if isinstance(error, SettingsError):  # an entry of the operator's is at fault, not the feed's data
            _log.warning("a feed's next step waits, and is tried again", feed=definition.id, cause=str(error))
            return None
        reason = str(feed_error(error))
        INCIDENTS.labels(_LABEL).inc()
        _log.error("an exception fails a feed", feed=definition.id, cause=reason, exc_info=error)
        epoch = definition.id, definition.epoch
        if epoch in self._failed:
            return None
        self._failed.add(epoch)
        return Failed(definition.id, definition.epoch, NO_PARTITION, reason)

"""Fails feeds whose steps met an exception that nobody foresaw: U7 and U9 of docs/security.md.

These are steps that the jobs agent, the owner of a frontier, or the driver of a query takes for one feed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from tidegate.changefeed.definition.feed import FeedDefinition, FeedEpoch, FeedId
from tidegate.changefeed.lifecycle.control import NO_PARTITION, Failed
from tidegate.errors import FeedError, RetryError, SettingsError
from tidegate.processor.containment import unforeseen

#: The time, in seconds, after which a feed that could not even be failed is looked at again.
AGAIN_S: Final = 60.0

_log = logging.getLogger("tidegate.feeds")


class FeedFaults:
    """The feeds that have failed because of an unforeseen exception. Each epoch of a feed fails once.

    ``count`` is called for each exception: it is for a metric.
    """

    def __init__(self, count: Callable[[], object] = lambda: None) -> None:
        self._count = count
        self._failed: set[tuple[FeedId, FeedEpoch]] = set()

    def failure(self, definition: FeedDefinition, error: Exception) -> Failed | None:
        """Make the message that fails the feed, as a log partition would send it.

        Returns ``None`` if a server does not answer, or if no client can be opened with the operator's login:
        then the caller only has to repeat the step. Returns ``None`` also for an epoch that has failed
        already. Raises ``error`` if the process is at fault, for example if the disk is full.
        """
        if isinstance(error, SettingsError | RetryError):  # the feed's data is not at fault
            _log.warning("the next step of feed %s waits, and is tried again: %s", definition.id, error)
            return None
        reason = str(self.reported(definition.id, error))
        epoch = definition.id, definition.epoch
        if epoch in self._failed:
            return None
        self._failed.add(epoch)
        return Failed(definition.id, definition.epoch, NO_PARTITION, reason)

    def reported(self, feed_id: FeedId, error: Exception) -> FeedError:
        """Count and log an exception of a feed's step. Return the error with which the feed fails.

        Raises ``error`` if the process is at fault.
        """
        reason = error if isinstance(error, FeedError) else FeedError(unforeseen(error, keeps=False))
        self._count()
        _log.error("an exception fails feed %s: %s", feed_id, reason, exc_info=error)
        return reason

"""The transactional ids of a feed's producers.

They are the same for every engine, so that the next owner of a feed fences the one before it.

A cluster knows only the transactional ids that it was given itself. Young clusters hand out the same small
producer ids and epochs. So a transactional id that two clusters know may have the same producer id and epoch
at both, and a commit that is meant for one could be accepted by the other. Therefore the id of markers names
the cluster that they are for. Example: ``tidegate-feed-7@kXfP2`` for feed 7 on the cluster ``kXfP2``.
"""

from __future__ import annotations

from typing import NamedTuple

from tidegate.changefeed.definition.feed import FeedId


def progress_id(app_id: str, feed_id: FeedId) -> str:
    """Return the transactional id of the producer of a feed's progress.

    The same producer writes the feed's markers if the sink is the engine's own cluster.
    """
    return f"{app_id}-feed-{feed_id}"


class MarkerIds(NamedTuple):
    """The transactional ids for a feed's markers on a cluster other than the engine's own.

    tidegate uses ``present``. Its earlier versions used ``former``.
    """

    former: str
    present: str

    @classmethod
    def of(cls, app_id: str, feed_id: FeedId, cluster: str) -> MarkerIds:
        """Return the transactional ids for the cluster with the id ``cluster``."""
        former = progress_id(app_id, feed_id)
        return cls(former, f"{former}@{cluster}")

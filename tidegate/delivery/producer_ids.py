"""The transactional ids of a feed's producers, the same for every engine: the next one fences who was before.

A cluster knows the transactional ids that it was given, and nothing of those of other clusters. Young
clusters give the same small producer ids and epochs, so an id that two clusters know may have one producer id
and epoch at both. The id of markers names the cluster that they are for: no other one takes a transaction of
it.
"""

from __future__ import annotations

from typing import NamedTuple

from tidegate.changefeed.definition.feed import FeedId


def progress_id(app_id: str, feed_id: FeedId) -> str:
    """The id of the producer of a feed's progress, and of its markers where the sink is the engine's own
    cluster."""
    return f"{app_id}-feed-{feed_id}"


class MarkerIds(NamedTuple):
    """The ids of a feed's markers on another cluster: ``former`` is that of versions before this one."""

    former: str
    present: str

    @classmethod
    def of(cls, app_id: str, feed_id: FeedId, cluster: str) -> MarkerIds:
        """On the cluster with the id ``cluster``."""
        former = progress_id(app_id, feed_id)
        return cls(former, f"{former}@{cluster}")

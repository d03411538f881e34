"""How many feeds one process can run.

The markers of a feed have a producer of their own, since its transactional id fences earlier owners of the
feed (docs/protocols/markers.md). A process cannot open any number of Kafka clients. So it has places for a
bounded number of feeds, and a feed without a place waits. Otherwise the process would end, or a feed that
runs would fail, because of one more feed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tidegate.changefeed.definition.feed import ENDED, LIVE, FeedDefinition
from tidegate.changefeed.lifecycle.jobs import FeedView, JobsView
from tidegate.delivery.sink_clusters import begun_on, sink_address
from tidegate.errors import StatementError


@dataclass(frozen=True, slots=True)
class FeedPlaces:
    """The places for feeds in a process that may have to run all feeds of its engine in an application.

    ``clients`` is how many Kafka clients the process may have for their markers. A feed that writes to the
    engine's own cluster, at ``own_servers``, takes one. A feed that writes to another cluster takes two: one
    of them writes its progress.
    """

    clients: int
    own_servers: str

    def wait(self, definition: FeedDefinition, jobs: JobsView) -> str:
        """Return why a feed has to wait for a place; an empty text if it has one.

        Feeds that run keep their places. Other feeds get places in the order of their ids, which is the order
        in which they were created.
        """
        engine = definition.engine.value
        feed_ids = jobs.having(_engine_of, [engine])[engine]
        if 2 * len(feed_ids) <= self.clients or jobs[definition.id].status in LIVE:
            return ""
        before = [
            each
            for each in feed_ids
            if each < definition.id or (each != definition.id and jobs[each].status in LIVE)
        ]
        taken = sum(self._clients_of(jobs[each]) for each in before)
        if taken + self._clients_of(jobs[definition.id]) <= self.clients:
            return ""
        return (
            f"it waits for a place: the markers of feeds may take {self.clients} Kafka clients of a process, "
            "and feeds that run, or were created before it, need all of them. It begins once enough of them "
            "have ended (`tidegate feed drop`). Or drop this feed, and create it in another application, "
            "with another TIDEGATE_APP_ID"
        )

    def _clients_of(self, feed: FeedView) -> int:
        if feed.definition is None:
            return 0
        try:
            is_elsewhere = sink_address(feed.definition.sink, begun_on(feed), self.own_servers)
        except StatementError:  # its sink cannot be read, and the feed fails
            return 0
        return 2 if is_elsewhere else 1


def _engine_of(feed: FeedView) -> Iterable[str]:
    """Return the engine that a feed runs on or is to run on; nothing for a feed that has ended."""
    if feed.definition is None or feed.status in ENDED:
        return ()
    return (feed.definition.engine.value,)

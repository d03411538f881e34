"""How many feeds one process can run.

The markers of a feed have a producer of their own, since its transactional id fences earlier owners of the
feed (docs/protocols/markers.md). The number of Kafka clients in a process is limited. So a process has places
for a bounded number of feeds, and a new feed without a place waits. Otherwise one more feed would end the
process, or make a feed that runs fail.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from tidegate.changefeed.definition.feed import ENDED, LIVE, FeedDefinition
from tidegate.changefeed.definition.sink import SinkUri
from tidegate.changefeed.lifecycle.jobs import FeedView, JobsView
from tidegate.delivery.sink_clusters import begun_on, sink_address
from tidegate.errors import StatementError

#: The producer of a feed's progress, which writes its markers too if they are on the engine's own cluster.
_PROGRESS: Final = 1
#: The producer of a feed's markers on another cluster.
_MARKERS: Final = 1
#: The clients that all feeds of another cluster share: one writes rows, one asks for topics.
_CLUSTER: Final = 2


@dataclass(frozen=True, slots=True)
class FeedPlaces:
    """The places for feeds in a process that may have to run all feeds of its engine in an application.

    ``clients`` is how many Kafka clients the process may have for feeds. A feed that writes to the engine's
    own cluster, at ``own_servers``, needs one. A feed that writes to another cluster needs two, and each such
    cluster two more.
    """

    clients: int
    own_servers: str

    def wait(self, definition: FeedDefinition, jobs: JobsView) -> str:
        """Return why a new feed has to wait for a place; an empty text if it need not.

        A feed that has begun never waits, also if it goes on here after a move, or on another cluster. New
        feeds get places in the order of their ids, which is the order in which they were created. A feed that
        waits for something else, such as its sink, keeps no place from later ones.
        """
        engine = definition.engine.value
        feed_ids = jobs.having(_engine_of, [engine])[engine]
        most_needed = (_PROGRESS + _MARKERS + _CLUSTER) * len(feed_ids)
        if most_needed <= self.clients or _has_begun(jobs[definition.id]):
            return ""
        sentence = self._sentence()
        others = ((each, jobs[each]) for each in feed_ids if each != definition.id)
        before = [
            feed
            for each, feed in others
            if _has_begun(feed) or (each < definition.id and _is_next(feed, sentence))
        ]
        return sentence if self._needed([*before, jobs[definition.id]]) > self.clients else ""

    def _sentence(self) -> str:
        return (
            f"it waits for a place: all feeds may take {self.clients} Kafka clients of a process, and the "
            "feeds that have begun, or were created before this one, leave too few of them. This feed begins "
            "once some of the others have ended (`tidegate feed drop`). Or drop this feed, and create it in "
            "another application, with another TIDEGATE_APP_ID"
        )

    def _needed(self, feeds: Sequence[FeedView]) -> int:
        """Return how many clients these feeds need together."""
        needed, clusters = 0, set[tuple[str, ...]]()
        for feed in feeds:
            if feed.defined is None or (sink := _sink(feed.defined)) is None:
                continue
            servers = sink_address(sink, begun_on(feed), self.own_servers)
            needed += _PROGRESS + (_MARKERS if servers else 0)
            clusters |= {servers} if servers else set()
        return needed + _CLUSTER * len(clusters)


def _sink(definition: FeedDefinition) -> SinkUri | None:
    """Return the sink, or ``None`` for one that cannot be read: such a feed fails."""
    try:
        return definition.sink
    except StatementError:
        return None


def _has_begun(feed: FeedView) -> bool:
    return feed.status in LIVE or bool(feed.targets)


def _is_next(feed: FeedView, no_place: str) -> bool:
    """Return whether a feed that has not begun waits for nothing, or for a place alone."""
    state = feed.current_state
    return state is None or state.error in ("", no_place)


def _engine_of(feed: FeedView) -> Iterable[str]:
    """Return the engine that a feed runs on or is to run on; nothing for a feed that has ended."""
    if feed.defined is None or feed.status in ENDED:
        return ()
    return (feed.defined.engine.value,)

"""Compares the cluster at a sink's address with that of a feed's topics, and says why a feed is held."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Protocol

from tidegate.changefeed.definition.feed import FeedId
from tidegate.changefeed.lifecycle.job_records import StateRecord
from tidegate.errors import SinkHeld


def require_cluster(questions: Iterable[Callable[[], str]], stored: str, say: Callable[[str], str]) -> None:
    """Raise ``SinkHeld`` unless every client is on the cluster with the feed's topics (M2c).

    Each of ``questions`` asks one client for the id of its cluster. ``stored`` is the id of the cluster with
    the topics. ``say`` makes the error's sentence of any other id. Raises what the questions raise.
    """
    for ask in questions:
        found = ask()
        if found != stored:
            raise SinkHeld(say(found))


class TellsCluster(Protocol):
    """A Kafka client that knows which cluster has given all of its answers so far."""

    def __call__(self, topic: str) -> str:
        """Return the id of the cluster. The question to the cluster names ``topic``."""


def require_marker_cluster(
    producer: TellsCluster, client: TellsCluster, state: StateRecord, say: Callable[[str], str]
) -> None:
    """Raise ``SinkHeld`` unless ``producer`` and ``client`` are on the cluster of the feed's topics (M2c).

    ``producer`` writes the markers, and ``client`` asks for end offsets. ``state`` is the feed's, with the id
    of that cluster. Raises as ``require_cluster`` does.
    """
    topic = state.targets[0].topic
    require_cluster([partial(producer, topic), partial(client, topic)], state.sink_cluster, say)


def held(feed_id: FeedId, servers: str, stored: str, found: str) -> str:
    """Return the sentence for a held feed.

    Its topics are on the cluster ``stored``, and the cluster ``found`` answers at its sink's ``servers``.
    """
    return (
        f"feed {feed_id} is held: its topics are on the Kafka cluster {stored}, and at {servers} there is "
        f"the cluster {found} now. No row and no marker is written there, and nothing is lost. Let the "
        f"address mean {stored} again; or, for good, have the feed continue on the cluster {found}: "
        f"`tidegate feed accept-cluster {feed_id} --cluster {found}`"
    )


def held_backfill(feed_id: FeedId, servers: str, stored: str, found: str) -> str:
    """Return the sentence for a held feed that is in a backfill. The parameters are those of ``held``.

    A backfill has to end on the cluster that it began on. Rows may be on either cluster by now.
    """
    return (
        f"the backfill of feed {feed_id} is held: its topics are on the Kafka cluster {stored}, and at "
        f"{servers} there is the cluster {found} now. Rows may stand on either, and no progress is stored "
        f"for them. Let the address mean {stored} again. A backfill cannot change clusters: where that will "
        f"never be, `tidegate feed drop {feed_id}`, and begin anew on other topics"
    )


def unknown(feed_id: FeedId) -> str:
    """Return the sentence for a feed that gets no rows, because the id of its cluster is not stored."""
    return (
        f"feed {feed_id} is given no row: the jobs topic does not say on which Kafka cluster its topics are. "
        "It is left behind, and catches up by scans once that is stored. If that stays so, drop the feed and "
        "create it anew"
    )


def uncertain(servers: str, stored: str, feeds: Iterable[FeedId]) -> str:
    """Return the sentence for feeds whose rows may or may not be on the cluster that is stored for them.

    ``stored`` is the id of that cluster.
    """
    return (
        f"Kafka at {servers} does not answer, or was another cluster than {stored} for a while, so it is not "
        f"certain which rows of feed {', '.join(feeds)} it has"
    )

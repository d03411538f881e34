"""Fences a feed that has ended, at the cluster of its sink: step E5 of docs/protocols/ends-of-feeds.md."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Protocol

from tidegate.changefeed.definition.feed import FeedId
from tidegate.delivery.sink_identity import require_cluster


class Fence(Protocol):
    """A transactional producer with an id of the feed's markers (``tidegate.client.kafka.transaction``)."""

    def cluster_id(self, topic: str) -> str: ...

    def open(self) -> None: ...


def shut_out(fences: Iterable[Fence], feed_id: FeedId, servers: str, topic: str, cluster: str) -> None:
    """Shut out all writers of the feed's markers to ``topic``, on the cluster with the id ``cluster``.

    ``fences`` have the transactional ids that a writer may have there (``MarkerIds``). Raises ``SinkHeld`` if
    another cluster is at ``servers``: the cluster with the topic does not know of the fence then. Raises what
    the calls of ``fences`` raise.
    """
    for fence in fences:
        _require(fence, feed_id, servers, topic, cluster)  # first: another cluster must not hear of the id
        fence.open()
        _require(fence, feed_id, servers, topic, cluster)  # again: another cluster may have answered


def _require(fence: Fence, feed_id: FeedId, servers: str, topic: str, cluster: str) -> None:
    require_cluster(
        [partial(fence.cluster_id, topic)],
        cluster,
        lambda found: (
            f"the topics of feed {feed_id}, which has ended, are on the Kafka cluster {cluster}, and at "
            f"{servers} there is the cluster {found} now. Until the address means {cluster} again nobody can "
            "be kept from writing a marker of the feed there, and no other feed is given its topics"
        ),
    )

"""Asks where the topics of a feed end, on the cluster that they are on: step M3a of
docs/protocols/resolved-topic.md.

A client asks whatever cluster is at its address. An end from another cluster would make a marker false, or
the engine would think that rows are gone, although they are there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Protocol

from tidegate.delivery.marker_records import Place
from tidegate.delivery.sink_identity import require_cluster
from tidegate.errors import TopicGone


class Ends(Protocol):
    """A client that asks where topics end (``tidegate.client.kafka.topic_admin``)."""

    def ends(self, places: Sequence[Place]) -> Mapping[Place, int]: ...

    def only_cluster(self, topic: str) -> str: ...


def ends_on(
    cluster: str, client: Ends, places: Sequence[Place], say: Callable[[str], str]
) -> Mapping[Place, int]:
    """Return the ends of ``places``, which are all on the cluster with the id ``cluster``.

    After the ends, the client is asked whether it has seen any other cluster. If it has, neither the ends nor
    the answer that a topic is unknown counts: ``SinkHeld`` is raised, with the sentence that ``say`` makes of
    the other id. Raises what the calls of ``client`` raise.
    """
    ask = partial(client.only_cluster, places[0][0])
    try:
        ends = client.ends(places)
    except TopicGone:
        require_cluster([ask], cluster, say)
        raise
    require_cluster([ask], cluster, say)
    return ends

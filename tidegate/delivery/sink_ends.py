"""Where the topics of a feed end on the cluster that they are on: step M3a of docs/delivery.md.

A client asks whatever cluster is at its address. An end of another one would be a lie in a marker, or would
say that rows are gone which are there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Protocol

from tidegate.delivery.marker_records import Place
from tidegate.delivery.sink_identity import require_cluster


class Ends(Protocol):
    """A client that asks where topics end; see ``tidegate.client.kafka.topic_admin``."""

    def ends(self, places: Sequence[Place]) -> Mapping[Place, int]: ...

    def only_cluster(self, topic: str) -> str: ...


def ends_on(
    cluster: str, client: Ends, places: Sequence[Place], say: Callable[[str], str]
) -> Mapping[Place, int]:
    """The ends of ``places``, of which all are on the cluster with the id ``cluster``.

    They count once the client has told behind them that it has seen no other cluster. Raises ``SinkHeld``
    with what ``say`` makes of the id of another one, and what the calls of ``client`` raise.
    """
    ends = client.ends(places)
    require_cluster([partial(client.only_cluster, places[0][0])], cluster, say)
    return ends

"""Where the rows of one feed go, once it is known which cluster that is."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from app.sink import Barrier
from app.sinks import Sinks
from tidegate.changefeed.feed import FeedDefinition
from tidegate.changefeed.jobs import FeedView
from tidegate.delivery.sink_clusters import stored_cluster
from tidegate.processor.batch import OutputRecord


class FeedSink:
    """Takes the rows of one epoch of a feed (``app.outlet.RowSink``). ``view`` is the feed on the jobs topic.

    The cluster is the one whose id is stored with the feed. A log partition may have a feed before the worker
    has read that from the jobs topic: until then the sink has no room.
    """

    def __init__(self, sinks: Sinks, definition: FeedDefinition, view: Callable[[], FeedView]) -> None:
        self._sinks = sinks
        self._definition = definition
        self._view = view
        self._cluster: str | None = None

    def send(self, rows: Sequence[OutputRecord], barrier: Barrier, first: int = 0) -> int:
        """See ``app.sink.Sink.send``."""
        if self._cluster is None:
            self._cluster = stored_cluster(self._view(), self._definition.epoch)
        if self._cluster is None:
            return first
        return self._sinks.of(self._definition.sink_uri, self._cluster).rows.send(rows, barrier, first)

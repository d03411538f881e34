"""Gives the rows of one feed to the row producer of their cluster, once that cluster is known."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final

import structlog

from tidegate.access.header_secrets import HeaderSecrets
from tidegate.changefeed.definition.feed import FIRST_EPOCH, FeedDefinition
from tidegate.changefeed.lifecycle.jobs import FeedView
from tidegate.delivery.sink_clusters import stored_cluster
from tidegate.errors import RetryError, SecretMissing, SinkNotAllowed
from tidegate.processor.batch import OutputRecord
from tidegate.worker.output.row_producer import Barrier, Sink
from tidegate.worker.output.worker_sinks import WorkerSinks

_TELL_AGAIN_S: Final = 10.0

_log = structlog.get_logger("tidegate.sink")


class FeedSink:
    """The sink of one epoch of a feed, as an outlet uses it (``tidegate.worker.output.outlet.RowSink``).

    ``view`` gives the feed as the jobs topic has it. The sink's cluster is the one whose id is stored there.
    A log partition may have a feed before the worker has read that id: until then the sink has no room.

    All rows go to one producer. When that producer ends, this sink takes no more rows: the outlet opens
    another sink, and first gives it the rows that the producer has given up. So rows stay in order.
    """

    def __init__(self, sinks: WorkerSinks, definition: FeedDefinition, view: Callable[[], FeedView]) -> None:
        self._sinks = sinks
        self._secrets = HeaderSecrets(definition, sinks.secrets)
        self._tell_at = 0.0
        self._definition = definition
        self._view = view
        self._cluster: str | None = None
        self._sink: Sink | None = None
        self._is_refused = False

    @property
    def is_over(self) -> bool:
        """Whether the producer that had the feed's rows is over. Then another ``FeedSink`` takes them."""
        return self._sink is not None and self._sink.is_over

    @property
    def is_held(self) -> bool:
        """Whether the rows of this epoch can be written nowhere.

        There are three causes. Another cluster than the feed's answers at the sink's address; or no entry of
        the operator allows the feed to write there; or the feed began a later epoch before this one's cluster
        was stored, and nobody stores that cluster any more.
        """
        sink = self._find()
        if sink is None:
            return self._is_refused or (self._view().epoch or FIRST_EPOCH) > self._definition.epoch
        if not self._cluster:
            return False
        if sink.is_over:  # it asks no cluster for its id any more
            sink = self._rows(self._cluster)
            if sink is None:
                return self._is_refused
        return sink.cluster_id not in ("", self._cluster)

    def send(self, rows: Sequence[OutputRecord], barrier: Barrier, first: int = 0) -> int:
        """See ``tidegate.worker.output.row_producer.Sink.send``."""
        sink = self._find()
        if sink is None:
            return first
        try:
            rows = self._secrets.into(rows, first)
        except SecretMissing as error:  # like a sink without room: somebody may still add the secret
            self._tell(error)
            return first
        if self._cluster:
            return sink.send_to(self._cluster, rows, barrier, first)
        return sink.send(rows, barrier, first)

    def _tell(self, error: RetryError) -> None:
        if time.monotonic() >= self._tell_at:
            self._tell_at = time.monotonic() + _TELL_AGAIN_S
            _log.warning("rows cannot be given to their sink", feed=self._definition.id, cause=str(error))

    def _find(self) -> Sink | None:
        if self._sink is None:
            self._cluster = stored_cluster(self._view(), self._definition.epoch)
            if self._cluster is not None:
                self._sink = self._rows(self._cluster)
        return self._sink

    def _rows(self, cluster: str) -> Sink | None:
        """The producer of rows for ``cluster``.

        ``None`` while the feed is not allowed to write there, or a secret of the login is missing.
        """
        self._is_refused = False
        try:
            return self._sinks.of(self._definition, cluster).rows
        except (SinkNotAllowed, SecretMissing) as error:
            self._is_refused = isinstance(error, SinkNotAllowed)
            self._tell(error)
            return None

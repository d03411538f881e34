"""Gives the rows of one feed to the row writer of their sink, once it is known which sink that is."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final

import structlog

from tidegate.access.header_secrets import HeaderSecrets
from tidegate.changefeed.definition.feed import FIRST_EPOCH, FeedDefinition
from tidegate.changefeed.lifecycle.jobs import FeedView
from tidegate.delivery.sink_clusters import stored_cluster
from tidegate.errors import ClientsExhausted, RetryError, SecretMissing, SettingsError, SinkNotAllowed
from tidegate.processor.batch import OutputRecord
from tidegate.worker.output.barrier import Barrier
from tidegate.worker.output.row_writer import SharedRowWriter
from tidegate.worker.output.worker_sinks import WorkerSinks

_TELL_AGAIN_S: Final = 10.0

_log = structlog.get_logger("tidegate.sink")


class FeedRowWriter:
    """The row writer of one epoch of a feed (``tidegate.worker.output.row_writer.RowWriter``).

    ``view`` gives the feed as the jobs topic has it. The sink's cluster is the one whose id is stored there.
    A log partition may have a feed before the worker has read that id: until then the writer has no room.

    All rows go to one shared writer. When that one ends, this writer takes no more rows: the outlet opens
    another writer, and first gives it the rows that the ended one has given up. So rows stay in order.
    """

    def __init__(self, sinks: WorkerSinks, definition: FeedDefinition, view: Callable[[], FeedView]) -> None:
        self._sinks = sinks
        self._secrets = HeaderSecrets(definition, sinks.secrets)
        self._tell_at = 0.0
        self._definition = definition
        self._view = view
        self._cluster: str | None = None
        self._shared: SharedRowWriter | None = None
        self._is_refused = False

    @property
    def is_over(self) -> bool:
        """Whether the shared writer that had the feed's rows is over. Then another writer takes them."""
        return self._shared is not None and self._shared.is_over

    @property
    def is_held(self) -> bool:
        """Whether the rows of this epoch can be written nowhere.

        There are three causes. The cluster that answers at the sink's address is not the one of the feed; or
        no entry of the operator allows the feed to write there; or the feed began a later epoch before the
        cluster of this epoch was stored, and nobody stores that cluster any more.
        """
        shared = self._find()
        if shared is None:
            return self._is_refused or (self._view().epoch or FIRST_EPOCH) > self._definition.epoch
        if not self._cluster:
            return False
        if shared.is_over:  # a writer that is over asks no cluster for its id any more
            shared = self._rows(self._cluster)
            if shared is None:
                return self._is_refused
        return shared.cluster_id not in ("", self._cluster)

    def send(self, rows: Sequence[OutputRecord], barrier: Barrier, first: int = 0) -> int:
        """See ``RowWriter.send``."""
        shared = self._find()
        if shared is None:
            return first
        try:
            rows = self._secrets.into(rows)
        except SecretMissing as error:  # like a sink without room: somebody may still add the secret
            self._tell(error)
            return first
        if self._cluster:
            return shared.send_to(self._cluster, rows, barrier, first)
        return shared.send(rows, barrier, first)

    def _tell(self, error: RetryError | SettingsError) -> None:
        if time.monotonic() >= self._tell_at:
            self._tell_at = time.monotonic() + _TELL_AGAIN_S
            _log.warning("rows cannot be given to their sink", feed=self._definition.id, cause=str(error))

    def _find(self) -> SharedRowWriter | None:
        if self._shared is None:
            self._cluster = stored_cluster(self._view(), self._definition.epoch)
            if self._cluster is not None:
                self._shared = self._rows(self._cluster)
        return self._shared

    def _rows(self, cluster: str) -> SharedRowWriter | None:
        """Return the shared writer of the sink with the id ``cluster``.

        ``None`` while the feed is not allowed to write there, a secret of the login is missing, a file of its
        entry cannot be used, or the process has no room for another Kafka client.
        """
        self._is_refused = False
        try:
            return self._sinks.of(self._definition, cluster).rows
        except (ClientsExhausted, SinkNotAllowed, SecretMissing, SettingsError) as error:
            self._is_refused = isinstance(error, SinkNotAllowed)
            self._tell(error)
            return None

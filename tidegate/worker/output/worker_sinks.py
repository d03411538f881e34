"""The Kafka clusters that feeds write to: the worker's own, and others, each opened when it is first needed.

Each cluster has a row producer of its own, so that a cluster that takes no rows stops only its own feeds. The
worker's own login is for its own cluster. Clients of another cluster have the login of the operator's entry
for it. If no entry allows a feed to write there, no client is opened (``tidegate.access.destinations``).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Executor
from functools import partial
from typing import Final, NoReturn

from tidegate.access.destinations import ClusterEntry
from tidegate.access.secret_store import SecretStore
from tidegate.changefeed.definition.feed import FeedDefinition, FeedId
from tidegate.changefeed.definition.sink import SinkUri
from tidegate.changefeed.definition.sink_servers import normal_servers
from tidegate.delivery.sink_clusters import sink_address
from tidegate.errors import SinkNotAllowed
from tidegate.worker.kafka.clients import opened, with_login
from tidegate.worker.kafka.topology import WorkerTopicAdmin
from tidegate.worker.operations.report import SinkReport
from tidegate.worker.output.row_producer import SharedRowProducer
from tidegate.worker.output.row_writer import SharedRowWriter
from tidegate.worker.process.machine import REAL, Machine
from tidegate.worker.process.settings import Settings

_PATIENCE_S: Final = 15.0  # bounded, since log partitions are held while topics are prepared
#: A cluster is closed after so many looks at which no live feed has it: 2, or 20 while rows wait for it.
_UNUSED_LOOKS: Final = 2
_WAITING_LOOKS: Final = 20


class SinkCluster:
    """One cluster that feeds write to, with its clients and threads.

    ``configure`` returns the worker's settings with this cluster's servers and login, and raises
    ``RetryError`` where no client may be opened. ``threads`` do the calls that may wait for the cluster. If
    its calls had the threads of the worker's own cluster, a cluster that is away would hold back the state of
    all partitions.
    """

    def __init__(
        self,
        servers: str,
        configure: Callable[[], Settings],
        machine: Machine,
        admin: Callable[[], WorkerTopicAdmin],
        threads: Callable[[], Executor],
        *,
        own: bool,
    ) -> None:
        #: Its name in metrics and sentences: ``host:port``, comma-separated.
        self.servers = servers
        self.own = own
        #: Publishers of markers that have not ended yet.
        self.publishers = 0
        self._unused_looks = 0
        self._configure = configure
        self._machine = machine
        self._open_admin, self._open_threads = admin, threads
        self._lock = threading.RLock()
        self._rows: SharedRowProducer | None = None
        self._admin: WorkerTopicAdmin | None = None
        self._threads: Executor | None = None

    @property
    def settings(self) -> Settings:
        """The settings for a new client.

        Raises ``SinkNotAllowed`` if no entry allows the feed to write there, and ``SecretMissing`` if a
        secret of the login is missing. ``rows`` and ``admin`` raise them too when they open a client.
        """
        return self._configure()

    @property
    def rows(self) -> SharedRowWriter:
        """The row producer of the cluster; a new one once the former has ended (step R6)."""
        with self._lock:
            if self._rows is None or self._rows.is_over:
                topic = "" if self._rows is None else self._rows.topic
                self._rows = SharedRowProducer(
                    self.settings, self._machine, watched=not self.own, topic=topic
                )
            return self._rows

    @property
    def admin(self) -> WorkerTopicAdmin:
        """A client for the cluster's topics; a new one when the former has seen another cluster."""
        with self._lock:
            if self._admin is None or self._admin.is_over:
                self._admin = self._open_admin()
            return self._admin

    @property
    def threads(self) -> Executor:
        """The threads for calls that wait for the cluster."""
        with self._lock:
            if self._threads is None:
                self._threads = self._open_threads()
            return self._threads

    def report(self) -> SinkReport:
        """Return the report for operators: how many rows wait for the cluster."""
        return SinkReport(self.servers, 0 if self._rows is None else self._rows.pending())

    def is_unused(self, *, has_feeds: bool) -> bool:
        """Whether to close the cluster. ``has_feeds`` says whether live feeds write to it at this look.

        It is closed some looks after the last feed has ended, when that feed's markers have ended too. If
        rows of ended feeds still wait for it, it stays open longer, but not for ever: it may be gone.
        """
        if has_feeds or self.publishers:
            self._unused_looks = 0
            return False
        self._unused_looks += 1
        waits = self._rows is not None and self._rows.pending() > 0
        return self._unused_looks >= (_WAITING_LOOKS if waits else _UNUSED_LOOKS)

    def retire(self) -> None:
        """Close the clients of a cluster that no feed needs any more. Calls that are under way go on.

        A feed that still uses its row writer sees that the writer is over, and opens another one (step R6).
        """
        with self._lock:
            if self._threads is not None:
                self._threads.shutdown(wait=False)
            if self._rows is not None:
                self._rows.retire()
            self._threads = self._rows = self._admin = None

    def close(self) -> None:
        """Give up the rows that are not acknowledged.

        The threads end too, but not those of the worker's own cluster: others use them.
        """
        if self._threads is not None and not self.own:
            self._threads.shutdown()
        if self._rows is not None:
            self._rows.close()


class WorkerSinks:
    """All clusters that feeds of this worker write to. Any thread may call it."""

    def __init__(
        self, settings: Settings, admin: WorkerTopicAdmin, threads: Executor, machine: Machine = REAL
    ) -> None:
        self._settings = settings
        #: The secrets that headers of feeds and logins of clusters name.
        self.secrets = SecretStore(settings.secrets_dir, settings.secrets_file)
        self._machine = machine
        self._lock = threading.Lock()
        self._found: dict[tuple[SinkUri, str | None, FeedId], SinkCluster] = {}
        self._others: dict[tuple[str, ...], SinkCluster] = {}
        own = settings.model_copy(
            update={"bootstrap_servers": ",".join(normal_servers(settings.bootstrap_servers.split(",")))}
        )
        self.own = SinkCluster(
            own.bootstrap_servers, lambda: own, machine, lambda: admin, lambda: threads, own=True
        )

    def of(self, definition: FeedDefinition, cluster: str | None = None) -> SinkCluster:
        """Return the cluster of a feed's sink. ``cluster`` is the id that is stored for the feed.

        Without a stored id, the addresses decide whether it is the worker's own cluster.
        If no entry allows the feed to write there, a cluster is returned that raises ``SinkNotAllowed``
        instead of opening a client. Raises ``StatementError`` if the feed's sink is not a sink URI.
        """
        key = definition.sink, cluster, definition.id
        with self._lock:
            found = self._found.get(key)
            if found is None:
                found = self._found[key] = self._find(*key)
            return found

    def close_unused(self, live: Collection[tuple[FeedId, SinkUri]]) -> None:
        """Close clusters that no live feed writes to, as ``SinkCluster.is_unused`` says.

        ``live`` has all feeds of workers that have not ended, with their sinks. Clients are closed in a
        thread. A feed that comes back opens the cluster anew.
        """
        unused = []
        with self._lock:
            self._found = {key: cluster for key, cluster in self._found.items() if (key[2], key[0]) in live}
            used = {id(cluster) for cluster in self._found.values()}
            for servers, cluster in list(self._others.items()):
                if cluster.is_unused(has_feeds=id(cluster) in used):
                    unused.append(self._others.pop(servers))
        if unused:
            self._machine.background(partial(_retire, unused), "sink-close")

    def report(self) -> tuple[SinkReport, ...]:
        """Return one report for each cluster, the worker's own first."""
        with self._lock:
            return tuple(cluster.report() for cluster in (self.own, *self._others.values()))

    def close(self) -> None:
        """Close all clusters."""
        with self._lock:
            for cluster in (self.own, *self._others.values()):
                cluster.close()

    def _find(self, sink: SinkUri, cluster: str | None, feed_id: FeedId) -> SinkCluster:
        servers = sink_address(sink, cluster, self._settings.bootstrap_servers)
        if not servers:
            return self.own
        try:
            entry = self._settings.destinations.entry(servers, feed_id, self._settings.bootstrap_servers)
        except SinkNotAllowed as error:
            return self._refused(servers, error)
        if servers not in self._others:
            self._others[servers] = self._other(",".join(servers), entry)
        return self._others[servers]

    def _other(self, servers: str, entry: ClusterEntry) -> SinkCluster:
        machine, threads = self._machine, self._settings.commit_threads

        def configure() -> Settings:
            return with_login(self._settings, servers, entry.login(self.secrets))

        return SinkCluster(
            servers,
            configure,
            machine,
            lambda: opened(lambda: WorkerTopicAdmin(configure(), machine, patience_s=_PATIENCE_S), servers),
            lambda: machine.executor(threads, f"sink {servers}"),
            own=False,
        )

    def _refused(self, servers: Sequence[str], why: SinkNotAllowed) -> SinkCluster:
        def refuse() -> NoReturn:
            raise SinkNotAllowed(str(why))

        own_threads = self.own.threads  # no call waits in them, since this cluster is never asked
        return SinkCluster(",".join(servers), refuse, self._machine, refuse, lambda: own_threads, own=False)


def _retire(clusters: Sequence[SinkCluster]) -> None:
    for cluster in clusters:
        cluster.retire()

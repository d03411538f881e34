"""The markers of all feeds that a query runs: opens their writers, fences others, and closes them."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from typing import Final
from weakref import WeakSet

from tidegate.changefeed.definition.feed import (
    ENDED,
    LIVE,
    Engine,
    FeedDefinition,
    FeedEpoch,
    FeedId,
    FeedState,
)
from tidegate.changefeed.encoding.confluent import SubjectSchema
from tidegate.changefeed.lifecycle.job_records import ProgressRecord, StateRecord
from tidegate.changefeed.lifecycle.jobs import FeedView
from tidegate.client.feed_faults import FeedFaults
from tidegate.client.kafka.client_room import clients_for_feeds, no_room
from tidegate.client.kafka.connection import KafkaConnection
from tidegate.client.kafka.topic_admin import TopicAdmin
from tidegate.client.kafka.transaction import GivenUpError, TransactionalProducer
from tidegate.client.topic_ownership import wanted_topics
from tidegate.delivery import sink_fence
from tidegate.delivery.marker_records import Ends
from tidegate.delivery.producer_ids import MarkerIds, progress_id
from tidegate.delivery.sink_clusters import OWN
from tidegate.delivery.sink_ends import ends_on
from tidegate.delivery.sink_identity import held, held_backfill, require_marker_cluster
from tidegate.errors import (
    ClientsExhausted,
    DeliveryError,
    FatalError,
    FeedError,
    RecordRefused,
    RetryError,
    SettingsError,
)
from tidegate.processor.checkpoint import PartitionProgress
from tidegate.spark.changefeed.feed_markers import FeedMarkers, FeedProducers
from tidegate.spark.changefeed.jobs_topic import JobsTopic, new_producer
from tidegate.spark.changefeed.marker_producers import OtherMarkerProducer, OwnMarkerProducer
from tidegate.spark.changefeed.query_sinks import QuerySinks
from tidegate.spark.changefeed.side_by_side import SideBySide, require_all

#: The seconds that another cluster may take to fence the writers of an ended feed.
_SINK_S: Final = 10.0

_log = logging.getLogger("tidegate.spark")


class QueryMarkers:
    """Writes the markers of those feeds in ``jobs`` that run on ``engine``.

    ``schema_id`` asks a schema registry. At most ``most`` feeds have markers at the same time; ``None``
    stands for what is safe here.
    """

    def __init__(
        self,
        connection: KafkaConnection,
        app_id: str,
        jobs: JobsTopic,
        sinks: QuerySinks,
        schema_id: Callable[[str, SubjectSchema], int],
        engine: Engine = Engine.SPARK,
        most: int | None = None,
    ) -> None:
        self._most = clients_for_feeds() if most is None else most
        self._engine = engine
        self._connection = connection
        self._app_id = app_id
        self._jobs = jobs
        self._sinks = sinks
        self._schema_id = schema_id
        self._together = SideBySide("markers of feeds")
        self._faults = FeedFaults()
        self._markers: dict[FeedId, FeedMarkers] = {}
        self._own: WeakSet[TransactionalProducer] = WeakSet()  # producers on the query's own cluster
        self._is_given_up = False
        self._lock = threading.Lock()  # of the two fields above
        #: The number of markers that were written for feeds, by writers that are closed.
        self._written: Counter[FeedId] = Counter()

    def begin(self, feed_ids: Iterable[FeedId]) -> None:
        """Do step M0 for those of the feeds that have a start, before a checkpoint names them.

        Closes the markers of feeds that have ended, that another engine runs, or that are in another epoch.
        Feeds for which the process has no room wait for the next call, and their states say so. Raises
        ``RetryError`` as ``JobsTopic.read_to_end`` does.
        """
        for feed_id, markers in list(self._markers.items()):
            feed = self._jobs.view[feed_id]
            if markers.epoch != feed.epoch or not self._marks(feed):
                self._close(feed_id)
        due = self._due(feed_ids)
        opening = self._together.call(self._open, due)
        opened = {feed_id: call.result() for feed_id, call in opening.items() if call.exception() is None}
        if opened:
            self._begin(opened)
        for feed_id, call in opening.items():
            try:
                call.result()
            except ClientsExhausted as full:
                self._tell_held(feed_id, _without_room(full))
            except (FatalError, RetryError, SettingsError, GivenUpError):
                raise
            except Exception as error:
                self._fail(feed_id, due[feed_id].epoch, self._faults.reported(feed_id, error))

    def _due(self, feed_ids: Iterable[FeedId]) -> dict[FeedId, FeedView]:
        """Return the feeds whose markers have to begin, and for which the process has room."""
        due: dict[FeedId, FeedView] = {}
        for feed_id in feed_ids:
            feed = self._jobs.view[feed_id]
            if feed_id not in self._markers and feed.definition is not None and self._marks(feed):
                if len(self._markers) + len(due) < self._most:
                    due[feed_id] = feed
                else:
                    self._tell_held(feed_id, _without_room(no_room(f"{self._most} are open for feeds")))
        return due

    def feeds(self) -> tuple[FeedId, ...]:
        """Return the feeds that have markers here."""
        return tuple(self._markers)

    def written(self) -> Counter[FeedId]:
        """Return how many markers were written for each feed."""
        return self._written + Counter({feed_id: each.written for feed_id, each in self._markers.items()})

    def fence(self, definition: FeedDefinition) -> None:
        """Fence whoever has run the feed (step H2 of docs/protocols/hand-over.md, E2 of
        docs/protocols/ends-of-feeds.md)."""
        self._opened(definition).close()

    def fence_all(self, definitions: Iterable[FeedDefinition]) -> None:
        """Fence whoever has run one of the feeds, as ``fence`` does for one feed."""
        require_all(self._together.call(self.fence, {each.id: each for each in definitions}))

    def shut_out(self, definition: FeedDefinition, heir: FeedDefinition) -> None:
        """Fence whoever may write markers of an ended feed (step E5 of docs/protocols/ends-of-feeds.md).

        Its sink may be another cluster: that of ``heir``, the feed that gets its topics. Raises
        ``RetryError`` while that cluster does not answer.
        """
        self.fence(definition)
        cluster = self._sinks.cluster_of(heir)
        if cluster != OWN:
            connection = self._sinks.connection(heir, cluster)
            ids, servers = MarkerIds.of(self._app_id, definition.id, cluster), connection.bootstrap_servers
            fences, topic = [new_producer(connection, each) for each in ids], wanted_topics(definition)[0]
            fencing = partial(sink_fence.shut_out, fences, definition.id, servers, topic, cluster)
            _shut_out_within(fencing, fences, servers, _SINK_S)

    def apply(self, report: PartitionProgress) -> None:
        """Apply a partition's report to its feeds (step M1). All rows that it covers are acknowledged."""
        for active in report.feeds:
            markers = self._markers.get(active.feed_id)
            if markers is not None and markers.epoch == active.epoch:
                markers.apply(report)

    def publish(self) -> None:
        """Persist progress, and write the markers that are due (steps M2 and M3), several feeds at a time.

        Closes the markers of a feed that has ended, or that another engine has taken over. A feed whose
        marker is refused fails. If a fault keeps one feed from its markers, the other feeds get theirs: the
        fault is raised when all others are done. Raises ``DeliveryError`` when another query runs these
        feeds, ``RetryError`` for a fault that may pass, and ``GivenUpError`` after ``give_up``.
        """
        ends: list[DeliveryError] = []
        waits: list[RetryError] = []
        for feed_id, call in self._together.call(FeedMarkers.publish, self._markers).items():
            try:
                self._published(feed_id, call)
            except DeliveryError as error:
                ends.append(error)
            except RetryError as error:
                waits.append(error)
        for fault in (*ends, *waits):  # a query that another one has fenced ends, whatever else it waits for
            raise fault

    def _published(self, feed_id: FeedId, call: Future[ProgressRecord | None]) -> None:
        markers = self._markers[feed_id]
        try:
            progress = call.result()
        except (FeedError, RecordRefused) as error:
            self._fail(feed_id, markers.epoch, error)
        except DeliveryError as error:
            self._jobs.read_to_end()
            feed = self._jobs.view[feed_id]
            if feed.epoch == markers.epoch and feed.status not in ENDED:
                raise
            _log.info("feed %s has ended, or is another engine's: %s", feed_id, error)
            self._close(feed_id)
        except (RetryError, SettingsError, GivenUpError):  # the last: the query ends meanwhile
            raise
        except Exception as error:
            self._fail(feed_id, markers.epoch, self._faults.reported(feed_id, error))
            markers.abort()
        else:
            if progress is not None:
                self._jobs.view.apply(progress.key, progress.to_bytes())
            self._tell_held(feed_id, markers.held)

    def _fail(self, feed_id: FeedId, epoch: FeedEpoch | None, error: FeedError | RecordRefused) -> None:
        """Store that the feed has failed, unless it is in another epoch by now, or another engine's.

        The next ``begin`` closes its markers.
        """
        feed = self._jobs.view[feed_id]
        state = feed.current_state
        if state is not None and feed.epoch == epoch and self._marks(feed):
            self._jobs.store(replace(state, state=FeedState.FAILED, error=str(error)))

    def give_up(self) -> None:
        """Make every call that waits for the query's own cluster, now or later, raise ``GivenUpError``.

        Any thread may call it.
        """
        with self._lock:
            self._is_given_up = True
            for producer in self._own:
                producer.give_up()

    def close(self) -> None:
        """Close the clients of brokers."""
        self._together.close()
        for markers in self._markers.values():
            markers.close()

    def _close(self, feed_id: FeedId) -> None:
        markers = self._markers.pop(feed_id)
        self._written[feed_id] += markers.written
        markers.close()

    def _tell_held(self, feed_id: FeedId, sentence: str) -> None:
        """Store in the state of a running feed whether it is held, and why."""
        state = self._jobs.view[feed_id].current_state
        if state is not None and state.state in LIVE and state.error != sentence:
            self._jobs.store(replace(state, error=sentence))

    def _begin(self, opened: Mapping[FeedId, FeedProducers]) -> None:
        """Begin the markers of the feeds once all producers are open.

        An open producer has fenced its predecessor. Before that, an open transaction of one predecessor would
        hide from a reader what another one has persisted.
        """
        self._jobs.read_to_end()
        stops: list[Exception] = []
        for feed_id, producers in opened.items():
            feed = self._jobs.view[feed_id]
            if feed.definition is None or not self._marks(feed):
                producers.close()
                continue
            try:
                ends = self._ends(feed.definition, feed.current_state)
                self._markers[feed_id] = FeedMarkers(
                    feed,
                    self._jobs.name,
                    producers,
                    ends,
                    self._schema_id,
                    insists=self._engine is Engine.BACKFILL,
                )
            except (FatalError, RetryError, SettingsError) as error:
                producers.close()
                stops.append(error)
            except Exception as error:
                producers.close()
                self._fail(feed_id, feed.epoch, self._faults.reported(feed_id, error))
        for stop in stops:  # all others have begun, and their producers are kept
            raise stop

    def _open(self, feed: FeedView) -> FeedProducers:
        definition = feed.definition
        assert definition is not None
        home = self._opened(definition)
        state = feed.current_state
        if state is None or not state.sink_cluster:
            return FeedProducers(home, OwnMarkerProducer(home))
        ids = MarkerIds.of(self._app_id, definition.id, state.sink_cluster)
        check = partial(self._check, definition, state)

        def there(transactional_id: str) -> TransactionalProducer:
            return new_producer(self._sinks.connection(definition, state.sink_cluster), transactional_id)

        return FeedProducers(home, OtherMarkerProducer(definition.id, there, ids, check))

    def _opened(self, definition: FeedDefinition) -> TransactionalProducer:
        """Return the open producer of the feed's progress, which has fenced every earlier one."""
        producer = new_producer(self._connection, progress_id(self._app_id, definition.id))
        with self._lock:
            self._own.add(producer)
            if self._is_given_up:
                producer.give_up()
        producer.open()
        return producer

    def _check(self, definition: FeedDefinition, state: StateRecord, producer: TransactionalProducer) -> None:
        """Check that the producer, and the client that asks for end offsets, are on the feed's cluster (M2c).

        Raises as ``require_marker_cluster`` does.
        """
        client, say = self._admin(definition, state.sink_cluster), self._held(definition, state.sink_cluster)
        require_marker_cluster(producer.cluster_id, client.only_cluster, state, say)

    def _ends(self, definition: FeedDefinition, state: StateRecord | None) -> Ends:
        """Return the function that asks the stored cluster where the feed's topics end (M3a)."""
        if state is None or not state.sink_cluster:
            return self._admin(definition, None if state is None else state.sink_cluster).ends
        stored, say = state.sink_cluster, self._held(definition, state.sink_cluster)
        return lambda places: ends_on(stored, self._admin(definition, stored), places, say)

    def _held(self, definition: FeedDefinition, stored: str) -> Callable[[str], str]:
        """Return the function that makes the sentence for another cluster at the sink's address."""
        say = held_backfill if definition.engine is Engine.BACKFILL else held
        return partial(say, definition.id, self._sinks.servers(definition, stored), stored)

    def _admin(self, definition: FeedDefinition, cluster: str | None) -> TopicAdmin:
        return self._sinks.admin(self._sinks.connection(definition, cluster))

    def _marks(self, feed: FeedView) -> bool:
        return feed.runs_on(self._engine) and feed.status in LIVE


def _without_room(full: ClientsExhausted) -> str:
    return f"its markers wait: {full}"


def _shut_out_within(
    fencing: Callable[[], None], fences: Sequence[TransactionalProducer], servers: str, patience_s: float
) -> None:
    """Fence the writers and close the fences.

    Raises ``RetryError`` when that takes longer than ``patience_s``.
    """
    timer = threading.Timer(patience_s, _give_up, (fences,))
    timer.start()
    try:
        fencing()
    except (GivenUpError, DeliveryError) as error:
        why = str(error) or f"no answer within {patience_s:.0f} s"
        raise RetryError(
            f"the Kafka cluster at {servers} did not shut out the markers of a feed that has ended and whose "
            f"topics another one wants: {why}"
        ) from None
    finally:
        timer.cancel()
        for fence in fences:
            fence.close()


def _give_up(fences: Iterable[TransactionalProducer]) -> None:
    for fence in fences:
        fence.give_up()

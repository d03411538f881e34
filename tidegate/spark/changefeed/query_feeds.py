"""The feeds that a query runs, as the jobs topic has them: how they begin, go on and end."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, TypeVar

from tidegate.access.output_namespace import EVERYWHERE, OutputNamespace
from tidegate.changefeed.definition.feed import (
    ENDED,
    Engine,
    FeedDefinition,
    FeedEpoch,
    FeedId,
    FeedState,
)
from tidegate.changefeed.lifecycle.control import (
    Ack,
    ControlMessage,
    Failed,
    Register,
    Removed,
    ack_key,
    read_ack,
)
from tidegate.changefeed.lifecycle.feed_answers import FeedAnswers
from tidegate.changefeed.lifecycle.job_records import StateRecord, TakeoverRecord
from tidegate.changefeed.lifecycle.jobs import FeedView
from tidegate.changefeed.lifecycle.registration import (
    Announce,
    Prepare,
    Settled,
    Step,
    StoreState,
    TakeOver,
    due_takeover,
    failed,
    failure_of,
    is_forgotten,
    needs_fence,
    step_on,
    waiting,
)
from tidegate.changefeed.lifecycle.takeover import awaited
from tidegate.client.control_acks import AcksUntilNow, read_acks
from tidegate.client.feed_faults import FeedFaults
from tidegate.client.kafka.client_room import clients_for_feeds
from tidegate.client.kafka.cluster import Cluster
from tidegate.client.kafka.topics import Topics
from tidegate.client.kafka.transaction import TRANSACTION_TIMEOUT_MS, GivenUpError, Record
from tidegate.client.topic_ownership import wait_for_owner
from tidegate.delivery.feed_places import FeedPlaces
from tidegate.delivery.sink_clusters import begun_on
from tidegate.errors import BrokerUnavailable, RetryError, StateError
from tidegate.hlc import ResolvedTimestamp
from tidegate.processor.checkpoint import decode_report
from tidegate.processor.range_claims import RangeClaims
from tidegate.raftlog.decode import decode_key
from tidegate.raftlog.encode import partition_of
from tidegate.spark.changefeed.incidents import tell_incident
from tidegate.spark.changefeed.jobs_topic import JobsTopic
from tidegate.spark.changefeed.pauses import Pauses
from tidegate.spark.changefeed.preparation import Preparation
from tidegate.spark.changefeed.query import Query
from tidegate.spark.changefeed.query_markers import QueryMarkers
from tidegate.spark.changefeed.query_sinks import QuerySinks
from tidegate.spark.changefeed.row_sinks import name_on_cluster
from tidegate.spark.changefeed.side_by_side import SideBySide
from tidegate.spark.changefeed.task.answers import Answer
from tidegate.verify import TopicPartition

_PATIENCE_S: Final = 15.0
_KEY_BYTES: Final = 8
_UNUSED_LOOK_S: Final = 30.0

_log = logging.getLogger("tidegate.spark")
ResultT = TypeVar("ResultT")


class QueryFeeds:
    """The feeds of an application that run on Spark.

    The thread that runs the query's batches uses it. Close it. Topics that it creates have
    ``output_partitions`` partitions. A new feed is registered only once every partition has reached the
    offset where the log ended when the query began. So the feed starts at the present, and the tables'
    descriptors are known.
    """

    def __init__(
        self,
        query: Query,
        topics: Topics,
        output_partitions: int,
        namespace: OutputNamespace = EVERYWHERE,
        clients: int | None = None,
    ) -> None:
        """``clients`` is how many Kafka clients the markers may take; ``None`` for what is safe here."""
        self._query = query
        clients = clients_for_feeds() if clients is None else clients
        self._places = FeedPlaces(clients, query.connection.bootstrap_servers)
        self._topics = topics
        self._sinks = sinks = QuerySinks(query.connection, _PATIENCE_S)
        self._jobs = JobsTopic(query.connection, topics, sinks.admin(query.connection))
        self._answers = FeedAnswers()
        self._preparation = Preparation(
            topics, self._jobs, sinks, output_partitions, self._is_gone, namespace, self._answers.about
        )
        self._markers = QueryMarkers(
            query.connection, topics.app_id, self._jobs, sinks, self._preparation.schema_id, most=clients
        )
        self._together = SideBySide("feeds that begin")
        self._faults = FeedFaults()
        self._claims = RangeClaims()
        self._pauses = Pauses()
        self._postponed = Pauses()  # the pauses of feeds that cannot begin yet
        self._silent: dict[str, BrokerUnavailable] = {}  # clusters that gave no answer in this look at feeds
        self._failing: set[FeedId] = set()  # feeds with a failure that is not stored yet
        self._fenced: set[FeedId] = set()  # ended feeds whose writer of progress is fenced
        # ended feeds whose writers of markers are fenced, at the sink too, since another feed wants their
        # topics
        self._shut_out: set[FeedId] = set()
        self._requests: list[bytes] = []
        self._look_at = 0.0  # when clients are looked for that no feed needs any more
        self._live_before: list[FeedDefinition] = []
        #: Answers that workers have to know: of feeds that have ended, or that failed here and were moved to
        #: them.
        self._untold: list[Ack] = []
        #: Epochs of feeds for which it is known whether workers failed the feed in an earlier epoch.
        self._learnt: set[tuple[FeedId, FeedEpoch]] = set()
        #: A reading of the answers up to now, for each epoch for which that is not known yet.
        self._unseen: dict[tuple[FeedId, FeedEpoch], AcksUntilNow] = {}
        #: The end of the log when the query began, for each partition that has not reached it yet.
        self._present = _ends(query)
        self._kept_back = False  # whether a new feed waits until all partitions have reached that end

    def announcements(self) -> Sequence[tuple[ControlMessage, Sequence[int]]]:
        """Return the messages for partitions about feeds that begin or end; store the states that are due.

        If no step leads on from a feed's stored state, that is logged, and the other feeds go on. Raises
        ``RetryError`` when something does not answer.
        """
        self._jobs.read()
        self._close_unused()
        self._forget_unseen()
        feed_ids = [feed_id for feed_id, _ in self._jobs.view.feeds()]
        self._markers.begin(feed_ids)
        postponed = self._postponed.feeds()
        due = [feed_id for feed_id in feed_ids if feed_id not in postponed]
        told: dict[FeedId, Announce] = {}
        self._silent.clear()
        while due:
            due = self._advance(due, told)
        return [(told[each].message, told[each].partitions) for each in feed_ids if each in told]

    def _close_unused(self) -> None:
        """Close clients that no live feed needs at this look or needed at the one before, 30 s ago."""
        if time.monotonic() < self._look_at:
            return
        self._look_at = time.monotonic() + _UNUSED_LOOK_S
        feeds = (feed for _, feed in self._jobs.view.feeds() if feed.runs_on(Engine.SPARK))
        now = [feed.definition for feed in feeds if feed.definition and feed.status not in ENDED]
        live, self._live_before = [*now, *self._live_before], now
        self._sinks.close_unused(live)
        self._preparation.close_unused(live)

    def _forget_unseen(self) -> None:
        """Forget unfinished readings of answers for feeds that have ended, or were moved, meanwhile."""
        view = self._jobs.view
        for feed_id, epoch in list(self._unseen):
            if view[feed_id].epoch != epoch or view[feed_id].status is not FeedState.PENDING:
                del self._unseen[feed_id, epoch]

    def paused(self) -> frozenset[FeedId]:
        """Return the feeds that are given no rows now, since their sinks do not take rows."""
        return self._pauses.feeds()

    def clusters(self) -> dict[str, str]:
        """Return the stored ids of the clusters that feeds write to, empty for the query's own.

        All feeds that have begun are named, since partitions may still have a feed that was moved or has
        ended. The names are those of ``name_on_cluster``. Ranges may have versions of an epoch on a former
        cluster: for these no cluster is named.
        """
        begun = ((name_on_its_cluster(feed), begun_on(feed)) for _, feed in self._jobs.view.feeds())
        return {name: cluster for name, cluster in begun if name is not None and cluster is not None}

    def reached(self, ends: Callable[[], Mapping[int, int]]) -> bool:
        """Note that the records of a batch are stepped, up to the offsets that ``ends`` tells.

        A partition's own next offset may be lower, since the last offsets of the log may have no records.
        Example: the offset of a transaction's marker. Returns whether new feeds have waited for that, and
        begin now.
        """
        if self._present:
            for partition, end in ends().items():
                self._note_position(partition, end)
        begins = self._kept_back and not self._present
        self._kept_back = self._kept_back and not begins
        return begins

    def note_answers(self, answers: Iterable[Answer]) -> None:
        """Note the answers of a finished round, whose rows are acknowledged.

        The claims of all checkpoints are counted before any checkpoint is applied. The checkpoints of several
        partitions, and the merged ones of a partition, are in no order of time. So the last of them may be
        the one that shows that two ranges have the same keys.
        """
        told = list(answers)
        reports = [decode_report(answer.body) for answer in told if answer.kind == "checkpoint"]
        for report in self._claims.count(reports):
            self._markers.apply(report)
        for answer in told:
            match answer.kind:
                case "ack":
                    self._note(read_ack(answer.body))
                case "request":
                    self._requests.append(answer.body)
                case "figures":
                    self._note_position(answer.partition, json.loads(answer.body)["next_offset"])
                case "left_behind":
                    self._pause(FeedId(answer.body.decode()))
                case "incident":
                    tell_incident(answer.body)

    def publish(self) -> None:
        """Write requests to the source, and acknowledgements for workers; then persist high-waters and
        write markers.
        """
        records = [self._request(body) for body in self._requests]
        acks = self._topics.control_acks
        records += [Record(acks, 0, ack_key(ack), ack.to_bytes()) for ack in self._untold]
        if records:
            self._jobs.commit(records)
            self._requests, self._untold = [], []
        self._markers.publish()

    def high_waters(self) -> dict[FeedId, ResolvedTimestamp | None]:
        """Return the persisted high-water of each feed that runs."""
        return {feed_id: self._jobs.view[feed_id].high_water for feed_id in self._markers.feeds()}

    def markers(self) -> Mapping[FeedId, int]:
        """Return how many markers were written for each feed since the query began."""
        return self._markers.written()

    def give_up(self) -> None:
        """Make every call that waits for the query's own cluster, now or later, raise ``GivenUpError``.

        Any thread may call it, once the query is to end.
        """
        self._jobs.give_up()
        self._markers.give_up()

    def close(self) -> None:
        """Close the clients of brokers and registries."""
        self._together.close()
        self._markers.close()
        self._jobs.close()
        self._preparation.close()

    def _postpone(self, feed_id: FeedId, away: RetryError) -> None:
        """Postpone a feed whose sink does not answer. Raises ``away`` if partitions wait for the feed."""
        feed = self._jobs.view[feed_id]
        if feed.definition is None:
            raise away
        try:
            may_wait = _may_wait(self._step(feed, feed.definition))
        except Exception as error:
            self._fail(feed_id, error)
            return
        if not may_wait:
            raise away
        self._tell_waiting(feed, feed.definition, str(away))
        again_s = self._postponed.begin(feed_id)
        _log.warning("feed %s begins later: %s It is tried again in %g s.", feed_id, away, again_s)

    def _fail(self, feed_id: FeedId, error: Exception) -> None:
        """Let a feed fail with its next step, since its step met an exception that nobody foresaw (U7).

        The next step is due in this same look at feeds: the reason has to be stored before partitions that
        are held for the feed give it up. If the next step meets an exception too, the feed is postponed; it
        is also postponed for an ``error`` that may pass, such as a login that cannot be used. Raises
        ``error`` if the process is at fault, and if the query ends.
        """
        definition = self._jobs.view[feed_id].definition
        if definition is None or isinstance(error, GivenUpError):
            raise error
        failure = self._faults.failure(definition, error)
        if failure is None:
            self._postponed.begin(feed_id)
        else:
            self._answers.add(failure)
            self._failing.add(feed_id)

    def _tell_waiting(self, feed: FeedView, definition: FeedDefinition, why: str) -> None:
        """Store in the feed's state what it waits for.

        For a feed that began in an earlier epoch nothing is stored before the feed is taken over: the state
        of the earlier epoch says where it began, and a new state would replace it.
        """
        state = waiting(definition, why, feed.stored_topics)
        may_store = feed.beginning is None or feed.current_takeover is not None
        if may_store and state != feed.current_state:
            self._jobs.store(state)

    def _pause(self, feed_id: FeedId) -> None:
        """Let a feed that is left behind pause, and log that (step S2)."""
        pause_s = self._pauses.begin(feed_id)
        if pause_s is not None:
            _log.warning(
                "feed %s: its sink does not acknowledge rows. The feed is left behind, and the others go on; "
                "it is tried again in %g s, and catches up by scans then.",
                feed_id,
                pause_s,
            )

    def _advance(self, feed_ids: Iterable[FeedId], told: dict[FeedId, Announce]) -> list[FeedId]:
        """Do the next step of each feed; return the feeds that have another step now.

        These are the feeds for which something was stored, and the feeds that fail. Messages for partitions
        are put into ``told``. Long steps are done for all feeds together, and their results are stored
        in one transaction. The end of a feed is stored immediately, since it may free the topics that a later
        feed wants.
        """
        going: list[FeedId] = []
        started: list[StateRecord] = []
        takeovers: list[FeedDefinition] = []
        prepares: dict[FeedId, tuple[FeedDefinition, Prepare]] = {}
        for feed_id in feed_ids:
            try:
                match self._next(feed_id):
                    case definition, TakeOver():
                        takeovers.append(definition)
                    case _, StoreState(record) if record.state is FeedState.RUNNING:
                        started.append(record)
                    case _, StoreState(record):
                        self._jobs.store(record)
                        going.append(feed_id)
                    case definition, Prepare() as prepare:
                        prepares[feed_id] = definition, prepare
                    case _, Announce() as announce:
                        told[feed_id] = announce
            except RetryError as away:
                self._postpone(feed_id, away)
            except StateError as stuck:
                self._postponed.begin(feed_id)
                _log.error("the next step of feed %s cannot be taken: %s", feed_id, stuck)
            except Exception as error:
                self._fail(feed_id, error)
        self._fence_ended([told[feed_id] for feed_id in feed_ids if feed_id in told])
        going += self._take_over(takeovers)
        started += self._prepared(prepares)
        self._jobs.store(*started)
        going += [record.feed_id for record in started]
        self._markers.begin(going)
        due, self._failing = self._failing.union(going), set()
        return sorted(due)

    def _next(self, feed_id: FeedId) -> tuple[FeedDefinition, Step] | None:
        """Return the next step of a feed, or ``None`` when there is nothing to do now."""
        feed = self._jobs.view[feed_id]
        definition = feed.definition
        if definition is None:
            return None
        step = self._step(feed, definition)
        match step:
            case Announce(message=Register()) | Prepare():
                if (end := self._end(feed, definition, step)) is not None:
                    return definition, StoreState(end)
                if self._waits_for_place(feed, definition, step) or self._waits_for_topics(feed, definition):
                    return None
                if self._present and isinstance(step, Announce):
                    self._kept_back = True
                    return None
        return definition, step

    def _end(self, feed: FeedView, definition: FeedDefinition, step: Step) -> StateRecord | None:
        """Return the failed state of a feed that cannot run; ``None`` if it can.

        Raises ``RetryError`` if the feed has to wait for its sink. If partitions are already held for a new
        feed, the feed fails when its sink does not answer any more.
        """
        try:
            fault = self._fault(definition)
        except RetryError as away:
            if isinstance(step, Prepare):
                return self._preparation.unprepared(definition, step, away)
            raise
        return failed(definition, fault, feed.stored_topics) if fault else None

    def _fault(self, definition: FeedDefinition) -> str:
        """Return why the feed cannot run, or an empty text. Raises ``RetryError`` if it waits for its sink.

        A cluster that gives no answer is asked once for all of its feeds: batches wait meanwhile.
        """
        servers = self._sinks.servers(definition)
        if servers in self._silent:
            raise self._silent[servers]
        try:
            return self._preparation.fault(definition)
        except BrokerUnavailable as silent:
            self._silent[servers] = silent
            raise

    def _prepared(self, due: Mapping[FeedId, tuple[FeedDefinition, Prepare]]) -> list[StateRecord]:
        """Prepare feeds; return the states in which they start, or in which they have failed.

        The topics of all are announced in one transaction, before any of them is created.
        """
        preparation = self._preparation
        announced = self._of_those_that_can(lambda each: preparation.announcement(*each), due)
        news = {feed_id: state for feed_id, state in announced.items() if state is not None}
        failed_ = [state for state in news.values() if state.state is FeedState.FAILED]
        promised = [state for state in news.values() if state.state is not FeedState.FAILED]
        self._jobs.store(*promised)
        preparation.create_early(promised)
        left = announced.keys() - {state.feed_id for state in failed_}
        going = {feed_id: each for feed_id, each in due.items() if feed_id in left}
        return [*failed_, *self._of_those_that_can(lambda each: preparation.begun(*each), going).values()]

    def _of_those_that_can(
        self,
        prepare: Callable[[tuple[FeedDefinition, Prepare]], ResultT],
        due: Mapping[FeedId, tuple[FeedDefinition, Prepare]],
    ) -> dict[FeedId, ResultT]:
        """Return the results of all calls, made side by side; postpone a feed whose sink does not answer."""
        done: dict[FeedId, ResultT] = {}
        for feed_id, call in self._together.call(prepare, due).items():
            try:
                done[feed_id] = call.result()
            except RetryError as away:
                self._postpone(feed_id, away)
            except Exception as error:
                self._fail(feed_id, error)
        return done

    def _step(self, feed: FeedView, definition: FeedDefinition) -> Step:
        begins_here = feed.runs_on(Engine.SPARK) and feed.current_takeover is not None
        if begins_here and feed.status is FeedState.PENDING:
            self._learn_failures(definition)
            if (definition.id, definition.epoch) not in self._learnt:
                return Settled()
        answers = self._answers.by_epoch(definition.id)
        return step_on(Engine.SPARK, feed, answers, self._query.partitions)

    def _learn_failures(self, definition: FeedDefinition) -> None:
        """Learn, once, whether partitions of workers failed the feed in an earlier epoch (step H4 of
        docs/protocols/hand-over.md).

        No jobs agent looks at those answers any more. While a transaction hides what workers have answered,
        nothing is learnt: the next batch looks again, and no partition is held meanwhile.
        """
        epoch = definition.id, definition.epoch
        if epoch in self._learnt:
            return
        connection, topic = self._query.connection, self._topics.control_acks
        waits = epoch in self._unseen
        if not waits:
            self._unseen[epoch] = AcksUntilNow(connection, topic, self._query.partitions)
        acks = self._unseen[epoch].read()
        if acks is None:
            if not waits:
                _log.info(
                    "feed %s waits for a transaction on %s to end: a worker writes to it, or has died amid "
                    "that, and then Kafka gives it up after %d s. Other feeds go on.",
                    definition.id,
                    topic,
                    TRANSACTION_TIMEOUT_MS // 1000,
                )
            return
        for ack in acks:
            reason = failure_of(ack)
            if reason and ack.feed_id == definition.id and ack.epoch < definition.epoch:
                self._answers.add(Failed(ack.feed_id, ack.epoch, ack.partition, reason))
        del self._unseen[epoch]
        self._learnt.add(epoch)

    def _take_over(self, definitions: Sequence[FeedDefinition]) -> list[FeedId]:
        """Take feeds over from the epochs before: fence their owners, then store where to go on.

        These are steps H2 and H3 of docs/protocols/hand-over.md, and N2 and N3 of
        docs/protocols/accept-cluster.md.

        All feeds are fenced first. Then the jobs topic is read to its end, once for all of them. Returns the
        feeds; none if that end cannot be read now.
        """
        if not definitions:
            return []
        self._markers.fence_all(definitions)
        try:
            self._jobs.read_to_end()
        except RetryError as away:
            for definition in definitions:
                self._postpone(definition.id, away)
            return []
        taken: list[TakeoverRecord] = []
        for definition in definitions:
            try:
                due = due_takeover(self._jobs.view[definition.id], definition)
            except Exception as error:
                self._fail(definition.id, error)
            else:
                taken += [due] if due is not None else []
        self._jobs.store(*taken)
        for each in taken:
            _log.info("feed %s is taken over at %s", each.feed_id, each.high_water or each.start)
        return [definition.id for definition in definitions]

    def _fence_ended(self, told: Iterable[Announce]) -> None:
        """Fence whoever writes the markers of ended feeds, before partitions forget them (step E2)."""
        due: list[FeedDefinition] = []
        for announce in told:
            feed_id = announce.message.feed_id
            feed = self._jobs.view[feed_id]
            if feed_id not in self._fenced and feed.definition is not None and needs_fence(feed, announce):
                due.append(feed.definition)
        self._markers.fence_all(due)
        self._fenced.update(definition.id for definition in due)

    def _waits_for_place(self, feed: FeedView, definition: FeedDefinition, step: Announce | Prepare) -> bool:
        """Return whether there is no place yet for a feed that no partition has heard of.

        If so, the state of the feed says it.
        """
        if isinstance(step, Prepare) or len(step.partitions) < self._query.partitions:
            return False
        no_place = self._places.wait(definition, self._jobs.view)
        if no_place:
            self._tell_waiting(feed, definition, no_place)
            self._postponed.begin(definition.id)
        return bool(no_place)

    def _waits_for_topics(self, feed: FeedView, definition: FeedDefinition) -> bool:
        """Return whether an ended feed may still write to the topics that this one wants.

        If so, the state of this feed says it.
        """
        while (owner := self._preparation.former_owner(definition)) is not None:
            if not self._gives_way(owner, definition):
                self._tell_waiting(feed, definition, wait_for_owner(owner))
                return True
        return False

    def _gives_way(self, owner: FeedId, heir: FeedDefinition) -> bool:
        """Fence the former owner of topics, once no partition has it any more (E5); return whether that
        was possible.
        """
        former = self._jobs.view[owner].definition
        if former is None or not self._is_forgotten(former):
            return False
        self._markers.shut_out(former, heir)
        self._shut_out.add(owner)
        return True

    def _is_gone(self, definition: FeedDefinition) -> bool:
        """Return whether an ended feed can write nothing any more."""
        return definition.id in self._shut_out and self._is_forgotten(definition)

    def _is_forgotten(self, definition: FeedDefinition) -> bool:
        """Return whether no partition has the ended feed any more, whichever engine ran it."""
        if definition.engine is not Engine.SPARK:
            for ack in read_acks(self._query.connection, self._topics.control_acks, self._query.partitions):
                if ack.feed_id == definition.id:
                    self._answers.add(ack)
        return is_forgotten(self._answers.of(definition.id, definition.epoch), self._query.partitions)

    def _note(self, ack: Ack) -> None:
        self._answers.add(ack)
        feed, reason = self._jobs.view[ack.feed_id], failure_of(ack)
        if reason and feed.defined is not None and not feed.runs_on(Engine.SPARK):
            self._untold.append(Failed(ack.feed_id, ack.epoch, ack.partition, reason))
        ended = feed.runs_on(Engine.SPARK) and feed.status in ENDED and feed.epoch == ack.epoch
        if ended and isinstance(ack, Removed):
            self._untold.append(ack)

    def _note_position(self, partition: int, next_offset: int) -> None:
        if next_offset >= self._present.get(partition, next_offset + 1):
            del self._present[partition]

    def _request(self, body: bytes) -> Record:
        key, value = body[:_KEY_BYTES], body[_KEY_BYTES:]
        range_id = decode_key(key)
        assert range_id is not None
        return Record(self._topics.requests, partition_of(range_id, self._query.partitions), key, value)


def name_on_its_cluster(feed: FeedView) -> str | None:
    """Return the ``name_on_cluster`` of a feed whose rows go to the cluster that its definition means.

    Returns ``None`` for a feed that is to move to another cluster and is not taken over yet.
    """
    defined = feed.defined
    if defined is None or awaited(defined, feed.takeover) is not None:
        return None
    return name_on_cluster(defined.id, defined.accepted_epoch)


def _may_wait(step: Step) -> bool:
    """Return whether the step may wait because no partition is held for the feed.

    Partitions are held from the feed's registration on.
    """
    match step:
        case TakeOver() | Announce(message=Register()):
            return True
        case Prepare(targets=targets):  # a feed that began in an earlier epoch goes on in the past
            return bool(targets)
        case _:
            return False


def _ends(query: Query) -> dict[int, int]:
    places = [TopicPartition(query.log, number) for number in range(query.partitions)]
    bounds = Cluster(query.connection).bounds(places)
    return {place.partition: bound.end for place, bound in bounds.items() if bound.end > bound.low}

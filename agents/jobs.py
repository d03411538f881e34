"""The jobs agent: takes feeds from their definition to the state that their users asked for.

The next step for a feed follows from durable records alone. ``tidegate.changefeed.lifecycle.registration``
decides it, and this agent takes it. There is one such agent at a time. It runs on the worker that holds the
single partition of acknowledgements, and its transactional producer fences an earlier one.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final, TypeVar

import structlog
from faust.types import TP

from tidegate.changefeed.definition.feed import LIVE, Engine, FeedDefinition, FeedId, FeedState
from tidegate.changefeed.lifecycle.control import Ack, Register, Removed, control_key, read_ack_record
from tidegate.changefeed.lifecycle.feed_answers import FeedAnswers
from tidegate.changefeed.lifecycle.job_records import StateRecord
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
    is_forgotten,
    needs_fence,
    step_on,
    waiting,
)
from tidegate.client.feed_faults import AGAIN_S, FeedFaults
from tidegate.client.kafka.transaction import Record
from tidegate.client.own_topics import OwnTopics
from tidegate.client.subject_ownership import new_subjects
from tidegate.client.topic_ownership import feed_fault, former_owner, wait_for_owner, wanted_topics
from tidegate.delivery.feed_start import sink_gone
from tidegate.errors import RetryError, StateError
from tidegate.worker.feeds.admission import Admitted, Refused, Verdict
from tidegate.worker.feeds.background_calls import BackgroundCalls
from tidegate.worker.feeds.feed_fences import FeedFences
from tidegate.worker.feeds.feed_preparation import prepared
from tidegate.worker.feeds.feed_registries import FeedRegistries, live_registry
from tidegate.worker.feeds.held_feeds import HeldFeeds
from tidegate.worker.feeds.sink_answers import FeedSinks
from tidegate.worker.kafka.fetched import FetchedBatch
from tidegate.worker.kafka.foreign_records import own_records
from tidegate.worker.kafka.intake import Intake, insisted
from tidegate.worker.kafka.transaction import WorkerTransactionalProducer
from tidegate.worker.operations.metrics import INCIDENTS
from tidegate.worker.process.ending import guarded_task
from tidegate.worker.shell import Shell

_ANSWER_S: Final = 5.0  # an announcement without an answer is repeated after this time
_PLACE_S: Final = 15.0  # a feed without a place is looked at again after this time

_log = structlog.get_logger("tidegate.jobs")
ResultT = TypeVar("ResultT")


class JobsOwner:
    """The part of the jobs agent that decides about feeds.

    It exists while this worker holds the partition of acknowledgements.
    """

    def __init__(self, app: Shell) -> None:
        self._app = app
        self._now = asyncio.get_running_loop().time
        self._tp = TP(app.topic_names.control_acks, 0)
        self.intake = Intake(self._tp, app.batches, self._note_acks)
        self._producer = WorkerTransactionalProducer(
            app.settings, f"{app.settings.app_id}-jobs", app.runtime.machine
        )
        self._answers = FeedAnswers()
        self._due: dict[FeedId, float] = {}
        self._announced: dict[FeedId, tuple[Announce, float]] = {}
        self._sinks = FeedSinks(app.runtime.sinks, self._look_at, self._now)
        self._registries = FeedRegistries(app.runtime.schema_ids, self._look_at, self._now)
        self._held = HeldFeeds(app.runtime.sinks, self._live_views, self._look_at)
        #: For each feed: the feeds that wait until it can no longer write to topics that they want.
        self._heirs: defaultdict[FeedId, set[FeedId]] = defaultdict(set)
        self._fences = FeedFences(app)
        self._calls = BackgroundCalls(self._look_at)
        self._faults = FeedFaults(INCIDENTS.labels("jobs").inc)
        self._news = asyncio.Event()
        self._closing = asyncio.Event()
        self._task = guarded_task(self._work(), "jobs")

    async def release(self) -> None:
        """Finish the step that is under way, and decide no more."""
        self._closing.set()
        self._news.set()
        self.intake.close()
        self._app.follower.forget(self._look_at)
        await self._task
        await self._calls.close()
        self._held.close()
        self._sinks.close()
        self._registries.close()
        await self._in_thread(self._producer.close)

    async def _work(self) -> None:
        await self._in_thread(self._producer.open)
        if not await self._app.follower.read_to_end(self._closing):
            return
        ends = await insisted(self._tp, lambda: self._app.batches.highwaters(self._tp), self._closing.is_set)
        if ends is None:
            return
        self.intake.open(0)
        while self.intake.position < ends[self._tp] and not self._closing.is_set():
            await self._wait(None)
        if not self._closing.is_set():
            self._app.follower.listen(self._look_at)
        while not self._closing.is_set():
            for feed_id in self._take_due():
                await self._look_after(feed_id)
            await self._wait(min(self._due.values(), default=None))

    async def _wait(self, until: float | None) -> None:
        timeout_s = None if until is None else max(0.0, until - self._now())
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._news.wait(), timeout_s)
        self._news.clear()

    def _look_at(self, feed_id: FeedId, delay_s: float = 0.0) -> None:
        self._due[feed_id] = min(self._now() + delay_s, self._due.get(feed_id, float("inf")))
        self._news.set()

    def _take_due(self) -> list[FeedId]:
        now = self._now()
        due = [feed_id for feed_id, at in self._due.items() if at <= now]
        for feed_id in due:
            del self._due[feed_id]
        return due

    def _note_acks(self, batch: FetchedBatch) -> None:
        for _, ack in own_records(batch, self._read_ack):
            self._answers.add(ack)
            self._look_at(ack.feed_id)
            if isinstance(ack, Removed):
                self._look_at_heirs(ack.feed_id)
        self._app.batches.completed(self._tp, batch.end)
        self._news.set()

    def _read_ack(self, key: bytes | None, value: bytes) -> Ack:
        return read_ack_record(key, value, self._app.runtime.topology.partitions)

    # ---- one step for one feed

    async def _look_after(self, feed_id: FeedId) -> None:
        """Take the next step for a feed. An exception that nobody foresaw fails this feed alone (U7)."""
        try:
            await self._advance(feed_id)
        except Exception as error:
            definition = self._app.follower.view[feed_id].definition
            if definition is None:
                raise
            failure = self._faults.failure(definition, error)
            if failure is not None:
                self._answers.add(failure)
            self._look_at(feed_id, 0.0 if failure is not None else AGAIN_S)

    async def _advance(self, feed_id: FeedId) -> None:
        feed = self._app.follower.view[feed_id]
        if feed.definition is None:
            return
        try:
            step = self._next_step(feed, feed.definition)
        except StateError as error:
            _log.error("the next step of a feed cannot be taken", feed=feed_id, cause=str(error))
            return
        if needs_fence(feed, step) and not self._is_fenced(feed.definition):
            return
        await self._do(feed.definition, step)

    def _is_fenced(self, definition: FeedDefinition) -> bool:
        """Whether earlier writers of the feed are fenced (step E2 of docs/protocols/ends-of-feeds.md).

        If it is not, the fencing begins, and the feed is looked at again afterwards.
        """
        return self._fences.has_ended(definition.id) or self._calls.has_returned(
            (definition.id, definition.epoch, "the fence"), partial(self._fences.end, definition.id)
        )

    def _next_step(self, feed: FeedView, definition: FeedDefinition) -> Step:
        partitions = self._app.runtime.topology.partitions
        return step_on(Engine.WORKERS, feed, self._answers.by_epoch(definition.id), partitions)

    async def _do(self, definition: FeedDefinition, step: Step) -> None:
        match step:
            case TakeOver():
                await self._take_over(definition)
            case Announce(message=Register()) | Prepare() if fault := self._fault(definition):
                await self._store(failed(definition, fault, self._view(definition).stored_topics))
            case Prepare(cluster=None) if self._sinks.cluster_of(definition) is None:
                await self._learn_sink(definition)
            case Announce(message=Register()) | Prepare() if owner := self._former_owner(definition):
                await self._wait_for_topics(definition, owner)
            case Announce(message=Register()) if await self._is_held_back(definition, step):
                pass
            case Announce():
                await self._announce(definition.id, step)
            case Prepare():
                await self._prepare(definition, step)
            case StoreState(record):
                await self._store(record)
            case Settled():
                self._announced.pop(definition.id, None)
                await self._tell_held(definition.id)

    async def _prepare(self, definition: FeedDefinition, step: Prepare) -> None:
        """Prepare the feed's topics and start it.

        If its cluster does not answer, a new feed fails. A feed that began in an earlier epoch waits instead,
        since it holds no partition.
        """
        cluster = step.cluster if step.cluster is not None else self._sinks.cluster_of(definition) or ""
        feed, own = self._view(definition), self._own_topics(definition)
        state = await prepared(definition, step, cluster, self._app.runtime, own, feed)
        stored = feed.current_state
        if state.state is FeedState.PENDING:
            self._look_at(definition.id, _ANSWER_S)
        if state != stored:
            await self._store(state)

    async def _take_over(self, definition: FeedDefinition) -> None:
        """Take a feed over: steps H2 and H3 of docs/protocols/hand-over.md, N2 and N3 of
        docs/protocols/accept-cluster.md."""
        app = self._app
        purpose = (definition.id, definition.epoch, "the takeover")
        if not self._calls.has_returned(purpose, partial(self._fences.fence, definition.id)):
            return
        if not await app.follower.read_to_end(self._closing):
            return
        taken = due_takeover(self._view(definition), definition)
        if taken is not None:
            await self._commit([Record(app.topic_names.jobs, 0, taken.key, taken.to_bytes())])
            _log.info("feed taken over", id=definition.id, high_water=str(taken.high_water))
            await app.follower.read_to_end(self._closing)
        self._look_at(definition.id)

    def _fault(self, definition: FeedDefinition) -> str:
        """Return why the feed has to fail; empty if it need not.

        While the sink's cluster is unknown, the topics are not checked. That cluster is asked before the feed
        is announced or prepared, and then this is called again.
        """
        app = self._app
        return feed_fault(
            definition,
            partial(self._sinks.cluster_of, definition),
            app.follower.view,
            app.topic_names.internal,
            partial(self._sinks.share, definition),
            app.settings.output_namespace,
            app.settings.destinations,
        )

    def _view(self, definition: FeedDefinition) -> FeedView:
        return self._app.follower.view[definition.id]

    def _own_topics(self, definition: FeedDefinition) -> OwnTopics:
        shares = partial(self._sinks.share, definition)
        return OwnTopics.of(definition, self._app.follower.view, shares, self._answers.about)

    def _former_owner(self, definition: FeedDefinition) -> FeedId | None:
        """Return the feed that must be gone before this one may have its topics; ``None`` if there is none.

        It is gone once every partition has forgotten it and nobody can write its markers.
        """
        topics, view = wanted_topics(definition), self._app.follower.view
        shares = partial(self._sinks.share, definition)
        return former_owner(definition, topics, view, self._is_gone, shares)

    def _is_gone(self, definition: FeedDefinition) -> bool:
        return self._forgotten(definition) and self._fences.is_shut_out(definition.id)

    async def _wait_for_topics(self, definition: FeedDefinition, owner: FeedId) -> None:
        """Have a feed wait until partitions have forgotten the former owner of its topics.

        Then that owner is fenced (E5).
        """
        former = self._app.follower.view[owner].definition
        if former is None:  # its definition was deleted meanwhile: ask again who has the topics
            self._look_at(definition.id)
            return
        if not self._forgotten(former):
            self._heirs[owner].add(definition.id)
            await self._tell_waiting(definition, wait_for_owner(owner))
            return
        cluster = self._sinks.cluster_of(definition)
        sink = self._app.runtime.sinks.of(definition, cluster)
        topic = wanted_topics(former)[0]
        shut_out = partial(self._fences.shut_out, owner, sink, topic, cluster or "")
        try:
            purpose = (definition.id, definition.epoch, f"the end of {owner} on {cluster}")
            if self._calls.has_returned(purpose, shut_out):
                self._look_at(definition.id)
        except RetryError as error:
            self._look_at(definition.id, _ANSWER_S)
            await self._tell_waiting(definition, f"{wait_for_owner(owner)}: {error}")

    async def _tell_waiting(self, definition: FeedDefinition, reason: str) -> None:
        """Store in the feed's state what it waits for, if the state does not say so."""
        feed = self._view(definition)
        state = waiting(definition, reason, feed.stored_topics)
        if state != feed.current_state:
            await self._store(state)

    async def _is_held_back(self, definition: FeedDefinition, step: Announce) -> bool:
        """Whether the feed has no place, or its sink or schema registries keep it from being announced.

        Its state says why.

        A feed that a partition may have heard of is never held back, since it holds that partition.
        """
        last, _ = self._announced.get(definition.id, (None, 0.0))
        announced = last is not None and last.message == step.message
        if announced or len(step.partitions) < self._app.runtime.topology.partitions:
            return False
        if no_place := self._app.runtime.feed_places.wait(definition, self._app.follower.view):
            await self._tell_waiting(definition, no_place)
            self._look_at(definition.id, _PLACE_S)
            return True
        verdict = self._verdict(definition)
        if isinstance(verdict, Refused):
            await self._store(failed(definition, verdict.reason, self._view(definition).stored_topics))
            return True
        stored = self._view(definition).current_state
        state = waiting(definition, verdict.reason, () if stored is None else stored.topics)
        if state.error != ("" if stored is None else stored.error):
            await self._store(state)
            return True
        return not isinstance(verdict, Admitted)

    def _verdict(self, definition: FeedDefinition) -> Verdict:
        verdict = self._sinks.verdict(definition, self._app.follower.view[definition.id])
        if isinstance(verdict, Admitted):
            has_begun = bool(self._view(definition).targets)
            subjects = new_subjects(definition, self._app.follower.view, self._app.settings.destinations)
            live = self._live_with_registries()
            return self._registries.verdict(definition, live, has_begun=has_begun, subjects=subjects)
        return verdict

    async def _tell_held(self, feed_id: FeedId) -> None:
        """Store in the state of a running feed whether the feed is held, and why."""
        stored = self._app.follower.view[feed_id].current_state
        if stored is None or stored.state not in LIVE:
            return
        sentence = self._held.sentence(feed_id, stored.sink_cluster)
        if sentence not in (None, stored.error):
            await self._store(replace(stored, error=sentence or ""))

    def _live_views(self) -> list[FeedView]:
        feeds = (feed for _, feed in self._app.follower.view.feeds() if feed.runs_on(Engine.WORKERS))
        return [feed for feed in feeds if feed.status in LIVE]

    def _live_with_registries(self) -> list[FeedDefinition]:
        """Return the first and the last feed that runs with each schema registry."""
        view = self._app.follower.view
        feeds = (view[each].definition for each in view.edges(live_registry))
        return [definition for definition in feeds if definition is not None]

    def _forgotten(self, definition: FeedDefinition) -> bool:
        return is_forgotten(
            self._answers.of(definition.id, definition.epoch), self._app.runtime.topology.partitions
        )

    def _look_at_heirs(self, owner: FeedId) -> None:
        for feed_id in self._heirs.pop(owner, ()):
            self._look_at(feed_id)

    async def _announce(self, feed_id: FeedId, step: Announce) -> None:
        last, at = self._announced.get(feed_id, (None, 0.0))
        rest_s = at + _ANSWER_S - self._now()
        if last is not None and last.message == step.message and rest_s > 0:
            self._look_at(feed_id, rest_s)
            return
        self._forget_questions(feed_id)
        key, value = control_key(feed_id), step.message.to_bytes()
        await self._commit([Record(self._app.topic_names.control, p, key, value) for p in step.partitions])
        self._announced[feed_id] = (step, self._now())
        self._look_at(feed_id, _ANSWER_S)

    def _forget_questions(self, feed_id: FeedId) -> None:
        self._sinks.forget(feed_id)
        self._registries.forget(feed_id)

    async def _learn_sink(self, definition: FeedDefinition) -> None:
        """Ask the sink which cluster it is. A former jobs agent knew it, but this one does not."""
        purpose = (definition.id, definition.epoch, "the question to the sink")
        try:
            if self._calls.has_returned(purpose, partial(self._sinks.learn, definition)):
                self._look_at(definition.id)
        except RetryError as error:
            servers = self._app.runtime.sinks.of(definition).servers
            topics = self._view(definition).stored_topics
            await self._store(sink_gone(definition, error, servers, topics))

    async def _store(self, record: StateRecord) -> None:
        """Write the record, and look at the feed again once the record can be read."""
        if record.state is not FeedState.PENDING:
            self._forget_questions(record.feed_id)
        await self._commit([Record(self._app.topic_names.jobs, 0, record.key, record.to_bytes())])
        _log.info("feed", id=record.feed_id, state=record.state.value, error=record.error or None)
        await self._app.follower.read_to_end(self._closing)
        self._look_at(record.feed_id)

    async def _commit(self, records: Sequence[Record]) -> None:
        await self._in_thread(partial(self._producer.commit, records))

    async def _in_thread(self, call: Callable[[], ResultT]) -> ResultT:
        threads = self._app.runtime.threads.commits
        return await asyncio.get_running_loop().run_in_executor(threads, call)


class JobsHolder:
    """The holder of the single partition of acknowledgements. ``owner`` is set while this worker has it."""

    def __init__(self, app: Shell) -> None:
        self._app = app
        self.owner: JobsOwner | None = None

    def assigned(self, partition: int) -> None:  # noqa: ARG002 - there is only one
        """Begin to decide about feeds: this worker has the partition now."""
        self.owner = JobsOwner(self._app)

    def receive_batch(self, batch: FetchedBatch) -> None:
        """Receive a batch of acknowledgements."""
        if self.owner is not None:
            self.owner.intake.receive_batch(batch)

    async def released(self) -> None:
        """Stop deciding about feeds: another worker may do so now."""
        owner, self.owner = self.owner, None
        if owner is not None:
            await owner.release()


def jobs_agent(app: Shell) -> None:
    """Register the agent with the application."""
    holder = JobsHolder(app)
    app.assignment.hold(app.topic_names.control_acks, holder)

    @app.agent(app.batch_topic(app.topic_names.control_acks), name="jobs", concurrency=1)
    async def jobs(stream: Any) -> None:
        await app.deliver(stream, holder.receive_batch)

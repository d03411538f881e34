"""One run: a store, a cluster, workers and the faults that hit them, from one seed."""

from __future__ import annotations

import gc
import hashlib
import logging
import traceback
from collections import deque
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, Final, NoReturn

import structlog

from tests.breaking_steps import SomeOffsets, broken_by_commands
from tests.destinations import DESTINATIONS_FILE
from tests.simulation.clients import Network, SimMachine, cluster_name, stranger_name
from tests.simulation.disk import Disk
from tests.simulation.fail_overs import Accepted, accept
from tests.simulation.group import Group, Member
from tests.simulation.judge import (
    COMPLETE,
    FeedTroubles,
    covered,
    markers_of,
    may_have_ended,
    read_jobs,
    read_output,
    violations,
)
from tests.simulation.kafka import Broker, SentRecord, Topic
from tests.simulation.plan import Fault, PlannedFeed, PlannedMove, RunPlan
from tests.simulation.registry import SINKS_LONGER_S, Absence, Registry
from tests.simulation.scheduler import Ended, Process, Scheduler
from tests.simulation.sinks import (
    OWN,
    RENAMED,
    WITNESS_LAG_S,
    FailOver,
    limit_rows,
    plan_troubles,
    sink_name,
)
from tests.simulation.source import Source
from tests.simulation.stops import Amid, PlannedStop
from tests.simulation.subscribers import feed_faults
from tests.simulation.worker import SimShell, start_worker
from tidegate.changefeed.definition.feed import (
    FIRST_EPOCH,
    Engine,
    FeedDefinition,
    FeedEpoch,
    FeedId,
    FeedState,
    TableName,
)
from tidegate.changefeed.definition.options import FeedOptions
from tidegate.changefeed.lifecycle.job_records import DefinitionRecord, DropRecord, JobRecord, StateRecord
from tidegate.changefeed.lifecycle.jobs import FeedView, JobsView
from tidegate.changefeed.lifecycle.takeover import takeover
from tidegate.client.kafka.topics import Topics
from tidegate.client.local_files import LocalFiles
from tidegate.client.refused_records import DIRECTORY, kept_names, read_kept
from tidegate.errors import DeliveryError, FatalError, RecordRefused
from tidegate.hlc import ZERO, Timestamp
from tidegate.kernel.kernel_mode import KernelMode
from tidegate.rows import decode_descriptor
from tidegate.worker.kafka.assignment import Assignment
from tidegate.worker.process.ending import leaving_by
from tidegate.worker.process.settings import Settings

_BASE_NS: Final = 1_700_000_000 * 10**9
_SESSION_S: Final = 1.0
_DRAIN_S: Final = 2.0
_PREFIX: Final = "s-"
_APP_ID: Final = "app"
CALM_S: Final = 400.0  # virtual seconds that everything may take to come to rest once nothing goes wrong
_LINES: Final = 400
_LOGGER: Final = logging.getLogger("tidegate")
_REST_FIRST_S: Final = 1.0
_FIRST_FEED_S: Final = 15.0
_LOOK_S: Final = 0.5
#: A worker that is told to stop gives up before that: after 2 s and 15 s for its release, and 15 s for the
#: rest.
_STOPPED_S: Final = 40.0
#: The text of log lines about exceptions that nobody foresaw, and the text of planted ones.
_DEFECT: Final = "which is a defect"
_PLANTED: Final = "nobody foresaw"
#: The error of a feed that came to a worker which had not read the tables yet. It asks the owner to create
#: the feed again.
_UNTOLD: Final = "no log partition has a descriptor"


@dataclass(slots=True)
class Outcome:
    """The outcome of a run. ``faults`` are sentences; a run that was as it should be has none."""

    seed: int
    faults: list[str] = field(default_factory=list)
    rows: int = 0
    versions: int = 0
    processes: int = 0
    rebalances: int = 0
    fenced: int = 0
    virtual_s: float = 0.0
    actions: int = 0
    digest: str = ""
    kept: int = 0
    subscriptions: int = 0
    lines: deque[str] = field(default_factory=lambda: deque(maxlen=_LINES))


class _Lines(logging.Handler):
    """A handler for the lines of a logger of the standard library."""

    def __init__(self, say: Callable[[str], None]) -> None:
        super().__init__()
        self._tell = say

    def emit(self, record: logging.LogRecord) -> None:
        self._tell(f"{record.levelname.lower()} {record.getMessage()}")


class _Host:
    """A machine that runs one worker after another."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.disk = Disk()
        self.process: Process | None = None
        self.member: Member | None = None
        self.shell: SimShell | None = None
        self.starts = 0
        self.stops = False  # the worker was told to


class Run:
    """A run: it builds everything, lets it run, and judges it. It comes to rest after ``calm_s``, or never.

    With ``subscribers`` the tables of its feeds are subscribed to in the end, in every mode. The test itself
    judges the feed that it ``breaks``: all others have to come to their end.
    """

    def __init__(
        self,
        plan: RunPlan,
        echo: Callable[[str], None] | None = None,
        calm_s: float = CALM_S,
        kernel: KernelMode = KernelMode.OFF,
        *,
        subscribers: bool = False,
        breaks: FeedId | None = None,
    ) -> None:
        self.plan = plan
        self._subscribers = subscribers
        self._breaks = breaks
        self._calm_s = calm_s
        self.outcome = Outcome(plan.seed)
        self._echo = echo
        self._rng = Random(f"{plan.seed}:faults")
        self.scheduler = Scheduler(plan.seed)
        self.broker = Broker(self.scheduler, plan.seed, _BASE_NS // 10**6, plan.slow_markers)
        self.network = Network(plan.network, plan.seed)
        limit_rows(plan.sinks, self.network)
        self._others = {
            sink.servers(number): (
                sink_name(number),
                Broker(self.scheduler, plan.seed + 1 + number, _BASE_NS // 10**6, plan.slow_markers),
            )
            for number, sink in enumerate(plan.sinks.sinks)
            if sink.elsewhere
        }
        self.source = Source(
            self.scheduler,
            self.broker,
            _PREFIX,
            plan.workload(),
            plan.store,
            plan.seed,
            _BASE_NS,
            lost=plan.lost_requests,
            late=plan.late_requests,
            odd=plan.odd,
        )
        self.registry = Registry(plan.registry, plan.seed, self.scheduler)
        self._directory = TemporaryDirectory(prefix="simulation-")  # of spools; other state is on a Disk
        self.settings = Settings(
            bootstrap_servers=OWN,
            app_id=_APP_ID,
            topic_prefix=_PREFIX,
            data_dir=Path(self._directory.name),
            batch_records=plan.batch_records,
            output_partitions=plan.output_partitions,
            checkpoint_partitions=plan.checkpoint_partitions,
            push_age_ms=plan.push_age_ms,
            push_repeat_ms=plan.push_repeat_ms,
            session_timeout_ms=int(_SESSION_S * 1000),
            sink_stall_ms=plan.sinks.stall_ms,
            feed_memory_bytes=plan.sinks.memory_bytes,
            feed_spool_bytes=plan.sinks.spool_bytes,
            drain_timeout_ms=int(_DRAIN_S * 1000),
            step_memory_bytes=plan.step_bytes,
            backlog_bytes=plan.backlog_bytes,
            destinations_file=DESTINATIONS_FILE,
            kernel=kernel,
        )
        self.group = Group(self.scheduler, self.broker, plan.seed, _SESSION_S, _DRAIN_S * 1.5)
        self.hosts = [_Host(f"w{number}") for number in range(plan.workers)]
        self._calm = False
        self._stopping = Random(f"{plan.seed}:who stops")
        self._breaking = SomeOffsets(plan.seed, plan.odd.breaking)
        #: The log lines of exceptions that nobody planted. They are needed, because workers go on after them,
        #: and ranges heal.
        self._broken: list[str] = []
        self._bootstrap = OWN
        self._accepted: dict[FeedId, Accepted] = {}

    def run(self) -> Outcome:
        """Run from the first action to the verdict."""
        breaking = broken_by_commands(self._breaking) if self.plan.odd.breaking else nullcontext()
        with self._directory, leaving_by(self._leave), self._lines(), breaking:
            self._begin()
            if self.plan.waits_for_feed:
                self._wait_for_feed()
            self._plan_faults()
            self.scheduler.run(self.scheduler.now + self.plan.seconds)
            if self.plan.sinks.witnessed:
                self._hear_witness()
            self._calm_down()
            self.scheduler.run(self.scheduler.now + self._calm_s, self._at_rest)
            self._judge()
            for host in self.hosts:
                if host.process is not None:
                    host.process.kill()
            self.scheduler.run(self.scheduler.now + 0.001)
        self.scheduler.close()
        gc.collect()
        return self.outcome

    # ---- what happens

    def _begin(self) -> None:
        for host in self.hosts:
            self.scheduler.after(self._rng.random() * 0.5, lambda host=host: self._start(host))  # type: ignore[misc]
        for number, feed in enumerate(self.plan.feeds):
            self.scheduler.at(feed.at, lambda number=number, feed=feed: self._create_feed(number, feed))  # type: ignore[misc]

    def _wait_for_feed(self) -> None:
        self.source.waits = True
        self._rest_due = 0.0
        self.scheduler.run(_FIRST_FEED_S, self._feed_runs)
        self.source.waits = False

    def _feed_runs(self) -> bool:
        if self.scheduler.now < self._rest_due:
            return False
        self._rest_due = self.scheduler.now + 0.1
        view = read_jobs(self.broker, Topics.of(self.settings).jobs)
        return any(feed.status in COMPLETE for _, feed in view.feeds())

    def _plan_faults(self) -> None:
        for fault in self.plan.faults:
            self.scheduler.after(fault.at, lambda fault=fault: self._strike(fault))  # type: ignore[misc]
        plan_troubles(self.plan.sinks, self.scheduler, self.network, self._say)
        self._plan_renaming()
        self._plan_strangers()
        self._plan_fail_overs()
        self._plan_oddities()
        for number, feed in enumerate(self.plan.feeds):
            if feed.dropped_at is not None:
                self.scheduler.after(feed.dropped_at, partial(self._drop_feed, number))
            if feed.move is not None:
                self.scheduler.after(feed.move.at, partial(self._move_away, number, feed.move))
        for absence in self.plan.registry.absences:
            self._plan_absence(absence)
        for stop in self.plan.stops:
            self._plan_stop(stop)

    def _plan_renaming(self) -> None:
        renamed_at = self.plan.sinks.renamed_at
        if renamed_at is not None:
            self.scheduler.after(renamed_at, self._rename)

    def _plan_oddities(self) -> None:
        for at in self.plan.odd.mutations:
            self.scheduler.after(at, self.source.mutate)
        for at in self.plan.odd.pauses:
            self.scheduler.after(at, self._pause_source)

    def _pause_source(self) -> None:
        self._say("-", f"the source has slept for {self.plan.odd.pause_s:.0f} s")
        self.source.sleep()

    def _drop_feed(self, number: int) -> None:
        """Drop the feed once it exists."""
        jobs, feed_id = Topics.of(self.settings).jobs, FeedId(f"feed{number}")
        state = read_jobs(self.broker, jobs)[feed_id].current_state
        if state is None or _is_untold(state):  # it is created, or created again
            self.scheduler.after(_LOOK_S, lambda: self._drop_feed(number))
            return
        self._say(feed_id, "is dropped")
        record = DropRecord(feed_id, 0)
        self.broker.append(self.broker.partition(jobs, 0), [SentRecord(record.key, record.to_bytes(), 0)])

    def _move_away(self, number: int, move: PlannedMove) -> None:
        """Move the feed to an engine that gives it no rows."""
        if self._feed(number).status is not FeedState.RUNNING or self._calm:
            return
        definition = self._begin_epoch(number, Engine.SPARK)
        if move.taken_s is not None:
            self.scheduler.after(move.taken_s, partial(self._take_over, number, definition))
        self.scheduler.after(move.back_s, partial(self._move_back, number))

    def _take_over(self, number: int, definition: FeedDefinition) -> None:
        """Steps H2 and H3 of docs/protocols/hand-over.md."""

        def fenced(_: int) -> None:
            feed = self._feed(number)
            if feed.defined == definition and feed.drop is None:
                taken = takeover(definition, feed.state, feed.progress, feed.takeover)
                self._write_job(taken)

        self.broker.take_over(f"{_APP_ID}-feed-{definition.id}", fenced)

    def _move_back(self, number: int) -> None:
        if self._feed(number).drop is None:
            self._begin_epoch(number, Engine.WORKERS)

    def _begin_epoch(self, number: int, engine: Engine) -> FeedDefinition:
        defined = self._feed(number).defined
        assert defined is not None
        self._say(defined.id, f"is moved to {engine.value}")
        definition = replace(defined, epoch=FeedEpoch(defined.epoch + 1), engine=engine)
        self._write_job(DefinitionRecord(definition))
        return definition

    def _write_job(self, record: JobRecord) -> None:
        jobs = self.broker.partition(Topics.of(self.settings).jobs, 0)
        self.broker.append(jobs, [SentRecord(record.key, record.to_bytes(), 0)])

    def _plan_strangers(self) -> None:
        """Plan when addresses mean other clusters: at any moment, or just when a cluster has told its id, and
        a client relies on that."""
        rng = Random(f"{self.plan.seed}:told")
        for number, sink in enumerate(self.plan.sinks.sinks):
            for at, seconds in sink.strange if sink.elsewhere else ():
                then = partial(self._make_strange, number, seconds)
                if rng.random() < 0.5:
                    then = partial(self.network.when_told, sink_name(number), then)
                self.scheduler.after(at, then)

    def _make_strange(self, number: int, seconds: float) -> None:
        """Let the address of a feed's sink mean another cluster for a while, with topics of the same
        names."""
        if self._has_a_stranger(number):
            self._say(sink_name(number), f"is another cluster for {seconds:.2f} s")
            self.network.make_strange(sink_name(number), self.scheduler.now + seconds)

    def _has_a_stranger(self, number: int) -> bool:
        """Whether the feed runs, so that its sink's address may mean another cluster. Before that no cluster
        is stored with the feed."""
        if self._feed(number).status is not FeedState.RUNNING or self._calm:
            return False
        broker = self._home_of(number)
        if broker.stranger is None:
            seed, base_ms = self.plan.seed + 100 + number, _BASE_NS // 10**6
            broker.stranger = Broker(self.scheduler, seed, base_ms)
        broker.stranger.copy_topics(broker)
        sink = sink_name(number)
        if not self.network.has_failed_over(sink):
            broker.stranger.copy_producers(broker, stranger_name(sink), cluster_name(sink))
        return True

    def _plan_fail_overs(self) -> None:
        for number, sink in enumerate(self.plan.sinks.sinks):
            if sink.fails_over is not None:
                self.scheduler.after(sink.fails_over.at, partial(self._fail_over, number, sink.fails_over))

    def _fail_over(self, number: int, plan: FailOver) -> None:
        """Let the address of a feed's sink mean another cluster for good."""
        if self._has_a_stranger(number):
            self._say(sink_name(number), f"fails over, and is accepted in {plan.accepted_s:.2f} s")
            self.network.fail_over(sink_name(number))
            self.scheduler.after(plan.accepted_s, partial(self._accept, number, plan))

    def _accept(self, number: int, plan: FailOver) -> None:
        feed, cluster = self._feed(number), stranger_name(sink_name(number))
        accepted = accept(feed, plan, cluster, self._home_of(number), self.registry, self._rng)
        if accepted is not None:
            definition = accepted.definition
            self._accepted[definition.id] = accepted
            self._say(sink_name(number), f"continues on another cluster from {plan.origin.value}")
            self._write_job(DefinitionRecord(definition))

    def _feed(self, number: int) -> FeedView:
        return read_jobs(self.broker, Topics.of(self.settings).jobs)[FeedId(f"feed{number}")]

    def _home_of(self, number: int) -> Broker:
        """Return the cluster on which the feed has begun."""
        servers = self.plan.sinks.sinks[number].servers(number)
        return self._others[servers][1] if servers in self._others else self.broker

    def _start(self, host: _Host) -> None:
        host.starts += 1
        self.outcome.processes += 1
        process = Process(self.scheduler, f"{host.name}.{host.starts}", self.plan.slowness)
        host.process, host.stops = process, False
        process.on_end.append(lambda: self._ended(host, process))

        def member(assignment: Assignment) -> Member:
            return Member(
                process,
                self.broker,
                self.network,
                assignment,
                str(self.plan.seed),
                self.plan.batch_records,
                self.plan.duplicates,
            )

        machine = SimMachine(process, self.broker, self.network, self._others)
        host.shell, host.member = start_worker(
            process, machine, host.disk, self._settings_now(), self.group, self.registry, member
        )

    def _settings_now(self) -> Settings:
        """Return the settings with the address that the workers' cluster has now."""
        return self.settings.model_copy(update={"bootstrap_servers": self._bootstrap})

    def _rename(self) -> None:
        """Give the workers' cluster another address. No worker has the old address after that."""
        self._say("-", "the workers' cluster has another address")
        self._bootstrap = RENAMED
        for host in self.hosts:
            if host.process is not None:
                host.process.kill()

    def _ended(self, host: _Host, process: Process) -> None:
        self._say(process.name, f"is gone: {process.end}")
        if process.end is not None and not _expected(process.end[0]):
            error = process.end[0]
            self.outcome.faults.append(f"{process.name} ended by itself: {''.join(_trace(error))}")
        self.scheduler.after(self._rng.random() * 0.5, lambda: self._start(host))

    def _create_feed(self, number: int, feed: PlannedFeed, epoch: FeedEpoch = FIRST_EPOCH) -> None:
        jobs = Topics.of(self.settings).jobs
        if jobs not in self.broker.topics:
            self.scheduler.after(0.2, lambda: self._create_feed(number, feed))
            return
        versions = self.source.simulation.store.descriptors
        tables = {TableName.of(decode_descriptor(update.descriptor)): None for update in versions}
        definition = FeedDefinition(
            id=FeedId(f"feed{number}"),
            epoch=epoch,
            description="",
            sink_uri=f"kafka://{self.plan.sinks.sinks[number].servers(number)}",
            tables=tuple(tables),
            options=self._from_cursor(feed),
            created_ns=0,
        )
        record = DefinitionRecord(definition)
        self.broker.append(self.broker.partition(jobs, 0), [SentRecord(record.key, record.to_bytes(), 0)])
        self.scheduler.after(_LOOK_S, lambda: self._create_again(number, feed, epoch))

    def _create_again(self, number: int, feed: PlannedFeed, epoch: FeedEpoch) -> None:
        """Create a feed again if its error asks the owner to do so. While the feed is pending, look again
        later."""
        state = read_jobs(self.broker, Topics.of(self.settings).jobs)[FeedId(f"feed{number}")].current_state
        if state is not None and _is_untold(state):
            self._create_feed(number, feed, FeedEpoch(epoch + 1))
        elif state is None or state.state is FeedState.PENDING:
            self.scheduler.after(_LOOK_S, lambda: self._create_again(number, feed, epoch))

    def _from_cursor(self, feed: PlannedFeed) -> FeedOptions:
        """Return the feed's options. If the feed has a cursor, that is at the very timestamp of a version."""
        if feed.cursor is None:
            return feed.options
        history = list(self.source.history)
        at = history[int(feed.cursor * len(history))].timestamp if history else Timestamp(_BASE_NS)
        return replace(feed.options, cursor=at)

    # ---- what goes wrong

    def _strike(self, fault: Fault) -> None:
        if self._calm:
            return
        running = [host for host in self.hosts if host.process is not None and host.process.alive]
        host = self._rng.choice(running) if running else None
        match fault.kind:
            case "outage":
                self._take_down_a_partition()
            case "strand":
                self._strand()
            case "rebalance":
                self.group.rebalance()
                if self._rng.random() < 0.4:
                    self.scheduler.after(self._rng.random() * 0.5, self.group.rebalance)
            case "kill" if host is not None:
                self._kill(host)
            case "pause" if host is not None:
                self._pause(host)
            case "disk" if host is not None:
                self._spoil_disk(host)

    def _kill(self, host: _Host) -> None:
        process = host.process
        assert process is not None
        drawn = self._rng.random()
        if drawn < 0.2:
            process.kill()
        elif drawn < 0.4:
            process.fuse = self._rng.randint(1, 300)
        else:
            process.unlit = self._rng.choice(("rows", "commit")), self._rng.randint(1, 60)

    def _pause(self, host: _Host) -> None:
        process, member = host.process, host.member
        assert process is not None
        assert member is not None
        long = self._rng.random() < 0.5
        seconds = _SESSION_S * self._rng.uniform(1.2, 4.0) if long else self._rng.random()
        self._say(process.name, f"stops for {seconds:.1f} s")
        process.pause()
        if long:
            self.scheduler.after(_SESSION_S, lambda: self.group.left_behind(member))
        self.scheduler.after(seconds, lambda: self._wake(process, member))

    def _wake(self, process: Process, member: Member) -> None:
        if process.paused:
            self._say(process.name, "goes on")
            process.resume()
            self.scheduler.after(self._rng.random() * 2.0, lambda: self.group.come_back(member))

    def _take_down_a_partition(self) -> None:
        topics = self._topics()
        place = self._rng.choice(topics[self._rng.choice(sorted(topics))].partitions)
        self.network.take_down(place, self.scheduler.now + self._rng.uniform(0.1, 6.0))

    def _strand(self) -> None:
        """Let the rows for one partition stay in their workers while other rows go on; then these workers
        die."""
        written = [topic for name, topic in sorted(self._topics().items()) if name.startswith("f")]
        if not written:
            return
        place = self._rng.choice(self._rng.choice(written).partitions)
        self.network.take_down(place, self.scheduler.now + self._rng.uniform(0.5, 3.0))
        self.scheduler.after(self._rng.random(), self._kill_some)

    def _kill_some(self) -> None:
        for host in self.hosts:
            if host.process is not None and not self._calm and self._rng.random() < 0.7:
                host.process.kill()

    def _plan_absence(self, absence: Absence) -> None:
        """Plan the absence of the registry, and perhaps of all sinks as well, while partitions change
        hands."""
        begins = self.scheduler.now + absence.at
        ends = begins + absence.seconds

        def stand_still() -> None:
            for number in range(len(self.plan.feeds)):
                self.network.stand_still(sink_name(number), ends + SINKS_LONGER_S)

        def go_away() -> None:
            self._say("registry", f"is away for {absence.seconds:.2f} s")
            self.registry.go_away(ends, silent=absence.silent)

        self.scheduler.at(begins, go_away)
        if absence.sinks_before is not None:
            self.scheduler.at(begins - absence.sinks_before, stand_still)
        if absence.rebalance_after is not None:
            self.scheduler.at(begins + absence.rebalance_after, self._rebalance)

    def _plan_stop(self, stop: PlannedStop) -> None:
        """Plan that workers are told to stop. The group and the sinks bring about the situation in which they
        are told."""
        begins = self.scheduler.now + stop.at
        if stop.sinks_before is not None:
            self.scheduler.at(begins - stop.sinks_before, partial(self._stand_still, begins))

        def tell() -> None:
            self.scheduler.after(stop.later_s, partial(self._stop, every=stop.all))

        if stop.amid is Amid.ASSIGNMENT:
            self.scheduler.at(begins, partial(self.group.when_shared, tell))
        else:
            self.scheduler.at(begins, tell)
        if stop.amid is not Amid.ANYTHING:
            self.scheduler.at(begins, self._rebalance)

    def _stand_still(self, at: float) -> None:
        """Keep sinks still until a drain that began at this time has given up the rows that wait for them."""
        for number in range(len(self.plan.feeds)):
            self.network.stand_still(sink_name(number), at + SINKS_LONGER_S)

    def _stop(self, *, every: bool) -> None:
        running = [host for host in self.hosts if host.process is not None and host.process.alive]
        running = [host for host in running if not host.stops]
        if running and not self._calm:
            for host in running if every else [self._stopping.choice(running)]:
                self._tell_to_stop(host)

    def _tell_to_stop(self, host: _Host) -> None:
        process, shell = host.process, host.shell
        assert process is not None
        assert shell is not None
        host.stops = True
        self._say(process.name, "is told to stop")
        process.loop.run_soon(shell.stop())
        self.scheduler.after(_STOPPED_S, partial(self._look_whether_stopped, process))

    def _look_whether_stopped(self, process: Process) -> None:
        if process.alive and not process.paused:
            self.outcome.faults.append(f"{process.name} runs on {_STOPPED_S:.0f} s after it was told to stop")

    def _rebalance(self) -> None:
        if not self._calm:
            self.group.rebalance()

    def _topics(self) -> dict[str, Topic]:
        """Return the topics of all clusters by their names; no two clusters have topics of one name."""
        return {name: topic for broker in self._brokers for name, topic in broker.topics.items()}

    @property
    def _brokers(self) -> list[Broker]:
        return [self.broker, *(broker for _, broker in self._others.values())]

    def _broker_of(self, feed: FeedView) -> Broker:
        """Return the broker to which it writes."""
        assert feed.definition is not None
        servers = feed.definition.sink_uri.removeprefix("kafka://")
        broker = self._others[servers][1] if servers in self._others else self.broker
        if feed.definition.id in self._accepted:
            assert broker.stranger is not None
            return broker.stranger
        return broker

    def _covered(self, feed: FeedView) -> Timestamp:
        return covered(self._broker_of(feed), self.registry, feed)

    def _spoil_disk(self, host: _Host) -> None:
        assert host.process is not None
        host.disk.sync()
        self.scheduler.after(self._rng.random() * 3.0, lambda: self._lose_disk(host))

    def _lose_disk(self, host: _Host) -> None:
        if host.process is not None:
            host.process.kill()
        if self._rng.random() < 0.5:
            host.disk.lose()
        else:
            host.disk.fail_power()

    # ---- the end

    def _calm_down(self) -> None:
        self._calm = self._breaking.none = True
        self.network.calm = self.registry.calm = True
        for broker in self._brokers:
            broker.calm = True
        self.source.calm_down()
        for host in self.hosts:
            if host.process is not None and host.process.paused:
                assert host.member is not None
                self._wake(host.process, host.member)
        self._rest_due, self._rest_pause = self.scheduler.now, _REST_FIRST_S

    def _at_rest(self) -> bool:
        """Whether every feed has come to the end of the history. This is looked up less and less often."""
        if self.scheduler.now < self._rest_due:
            return False
        self._rest_due = self.scheduler.now + self._rest_pause
        self._rest_pause *= 1.3
        if not self.source.simulation.drained:
            return False
        last = max((version.timestamp for version in self.source.history), default=ZERO)
        view = read_jobs(self.broker, Topics.of(self.settings).jobs)
        feeds = [feed for feed_id, feed in view.feeds() if feed_id != self._breaks]
        if len(feeds) + (self._breaks is not None) < len(self.plan.feeds):
            return False
        feeds = [feed for feed in feeds if not may_have_ended(feed, self._troubles_of(feed))]
        failed = [feed.current_state for feed in feeds if feed.status is FeedState.FAILED]
        return any(state is not None and not _is_untold(state) for state in failed) or all(
            feed.status is FeedState.SUCCEEDED
            or (feed.status is FeedState.RUNNING and self._covered(feed) >= last)
            for feed in feeds
        )

    def _troubles_of(self, feed: FeedView) -> FeedTroubles:
        """Return the troubles that may end the feed."""
        assert feed.definition is not None
        number = int(feed.definition.id.removeprefix("feed"))
        return FeedTroubles(
            self.plan.sinks.sinks[number].refusal,
            self.plan.feeds[number].dropped_at is not None,
            self.source.mutations,
        )

    def _hear_witness(self) -> None:
        """Check that the first feed's markers have gone on while the other sinks stood still for long."""
        view = read_jobs(self.broker, Topics.of(self.settings).jobs)
        (feed,) = (feed for _, feed in view.feeds() if feed.definition and feed.definition.id == "feed0")
        lag_s = (self.source.now_ns - self._covered(feed).wall) / 1e9
        self._say("-", f"markers of feed0 are {lag_s:.1f} s behind")
        if lag_s > WITNESS_LAG_S:
            self.outcome.faults.append(f"markers of feed0 are {lag_s:.1f} s behind while another sink stands")

    def _judge(self) -> None:
        outcome = self.outcome
        view = read_jobs(self.broker, Topics.of(self.settings).jobs)
        descriptors = self.source.simulation.store.descriptors
        found = 0
        for feed_id, feed in view.feeds():
            found += 1
            if feed_id == self._breaks:
                continue
            accepted = self._accepted.get(feed_id)
            outcome.faults += violations(
                self._broker_of(feed),
                self.registry,
                _as_begun(feed) if accepted is None else accepted.judged(feed),
                self.source.history,
                descriptors,
                self._troubles_of(feed),
                mirrored=accepted is not None and accepted.mirrors,
            )
        for number in range(len(self.plan.sinks.sinks)):
            goes_on = FeedId(f"feed{number}") in self._accepted
            outcome.faults += self._late(number) if goes_on else _astray(self._home_of(number))
        if found != len(self.plan.feeds):
            outcome.faults.append(f"{found} feeds of {len(self.plan.feeds)} are known")
        quarantined: list[str] = []
        for host in self.hosts:
            if host.process is not None and host.process.alive and host.shell is not None:
                for report in host.shell.reports.partitions():
                    quarantined += [f"quarantined: {hole}" for hole in report.quarantined]
        if outcome.faults:  # no fault by itself: where rows are needed, holes heal with the next snapshot
            outcome.faults += quarantined
        outcome.versions = len(self.source.history)
        outcome.rows = sum(
            place.end
            for name, topic in self._topics().items()
            if name.startswith("f")
            for place in topic.partitions
        )
        outcome.rebalances = self.group.rebalances
        outcome.fenced = sum(broker.fenced for broker in self._brokers)
        outcome.virtual_s, outcome.actions = self.scheduler.now, self.scheduler.actions
        outcome.digest = self._digest()
        outcome.faults += self._look_at_kept()
        outcome.faults += [f"a step broke: {line}" for line in dict.fromkeys(self._broken)]
        if self._subscribers and not outcome.faults:
            outcome.faults += self._subscribe(view)

    def _subscribe(self, view: JobsView) -> Iterator[str]:
        random = Random(f"{self.plan.seed}:subscribers")
        descriptors = self.source.simulation.store.descriptors
        for _, feed in view.feeds():
            broker = self._broker_of(feed)
            for _, faults in feed_faults(
                broker, self.registry, _as_begun(feed), self.source.history, descriptors, random
            ):
                self.outcome.subscriptions += 1
                yield from faults

    def _look_at_kept(self) -> Iterator[str]:
        """Yield a fault for each record that workers have kept aside and that differs from the log's."""
        files = LocalFiles(self.settings.home / DIRECTORY)
        for name in kept_names(files):
            self.outcome.kept += 1
            kept, topic, partition, *_ = read_kept(files, name)
            (entry,), _ = self.broker.partition(topic, partition).read(kept.offset, 1)
            if entry.record is None or (kept.key, kept.value) != (entry.record.key, entry.record.value):
                yield f"{name} is not what the log has at offset {kept.offset}"

    def _late(self, number: int) -> Iterator[str]:
        """Yield a fault for each marker on a feed's former cluster that is above everything that was
        persisted there."""
        feed = self._feed(number)
        taken = feed.takeover
        if taken is None or taken.silent_to is None or feed.current_state is None:
            return
        markers = markers_of(read_output(self._home_of(number), self.registry, feed))
        for place, marker in markers.items():
            if marker > taken.silent_to:
                yield f"marker {marker} is on {place} of the former cluster, above {taken.silent_to}"

    def _digest(self) -> str:
        """Return a digest of everything that stands in the cluster: two runs of one seed have the same."""
        digest = hashlib.sha256(str(self.scheduler.actions).encode())
        for name, topic in sorted(self._topics().items()):
            for place in topic.partitions:
                for entry in place.entries:
                    digest.update(repr((name, place.number, entry.offset, entry.record)).encode())
        return digest.hexdigest()[:16]

    # ---- how processes end, and what they say

    def _leave(self, error: Ended, status: int) -> NoReturn:
        process = self.scheduler.process
        assert process is not None
        process.leave(error, status)
        raise AssertionError("a process that has left goes on")

    @contextmanager
    def _lines(self) -> Iterator[None]:
        """Keep the last lines of all loggers."""

        def keep(_: Any, level: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
            fields = " ".join(f"{name}={value}" for name, value in event.items() if name != "event")
            self._say_here(f"{level} {event.get('event')} {fields}")
            raise structlog.DropEvent

        handler = _Lines(self._say_here)
        structlog.configure(processors=[keep], cache_logger_on_first_use=False)
        _LOGGER.addHandler(handler)
        try:
            yield
        finally:
            _LOGGER.removeHandler(handler)
            structlog.reset_defaults()

    def _say_here(self, what: str) -> None:
        if _DEFECT in what and _PLANTED not in what:
            self._broken.append(what)
        process = self.scheduler.process
        self._say("-" if process is None else process.name, what)

    def _say(self, who: str, what: str) -> None:
        line = f"{self.scheduler.now:10.4f} {who:6} {what}"
        self.outcome.lines.append(line)
        if self._echo is not None:
            self._echo(line)


def _astray(broker: Broker) -> Iterator[str]:
    """Yield a fault for each marker on a cluster that has no feed's topics."""
    stranger = broker.stranger
    for topic in () if stranger is None else stranger.topics:
        assert stranger is not None
        markers = sum(entry.key is None for _, entry in stranger.committed(topic))
        if markers:
            yield f"{markers} markers are on {topic} of a cluster that the feed is not on"


def _as_begun(feed: FeedView) -> FeedView:
    """Return the feed as its output is judged: from its first start on, whatever epochs it had."""
    state, began = feed.current_state, feed.takeover
    if state is None or began is None:
        return feed
    return replace(feed, takeover=None, state=replace(state, start=began.start))


def _is_untold(state: StateRecord) -> bool:
    return state.state is FeedState.FAILED and _UNTOLD in state.error


def _expected(error: Ended) -> bool:
    """Whether a worker may end itself because of this error."""
    if isinstance(error, RecordRefused):
        return False  # that is the end of a feed
    return error is None or isinstance(error, DeliveryError) or type(error) is FatalError


def _trace(error: Ended) -> list[str]:
    return [] if error is None else traceback.format_exception(error)

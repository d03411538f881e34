"""The Faust application: group membership, assignment and agents; delivery is ours (docs/delivery.md)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final

import faust
import structlog
from faust.app.base import BootStrategy
from faust.tables.manager import TableManager

from tidegate.client.kafka.topics import Topics
from tidegate.errors import FatalError, TidegateError
from tidegate.worker.kafka.assignment import Assignment
from tidegate.worker.kafka.clients import broker_urls, faust_credentials
from tidegate.worker.kafka.fetched import FetchedBatch
from tidegate.worker.kafka.foreign_records import foreign_reports
from tidegate.worker.kafka.jobs_follower import JobsFollower
from tidegate.worker.kafka.topic_watch import TopicWatch
from tidegate.worker.kafka.transport import BatchConsumer, BatchSchema, BatchTransport
from tidegate.worker.operations.gc_alarm import start_gc_alarm
from tidegate.worker.operations.report import AgentReports, RegistryReport, WorkerReport
from tidegate.worker.operations.stall_alarm import start_stall_alarm
from tidegate.worker.operations.status_server import StatusServer
from tidegate.worker.process.ending import EXIT_REFUSED, end_process, leave_process
from tidegate.worker.process.schema_ids import RegistryWait, SchemaIds
from tidegate.worker.process.settings import Settings
from tidegate.worker.runtime import Runtime
from tidegate.worker.shell import Shell

_REQUEST_S: Final = 40.0
_FETCH_BYTES: Final = 4 << 20  # per partition and fetch; above any record
_HEARTBEATS_PER_SESSION: Final = 4
_COMMIT_S: Final = 5.0
_STOP_MARGIN_S: Final = 15.0  # for leaving the group, after the drain
_RELEASE_MARGIN_S: Final = 30.0  # a revoked member may take this longer than the drain before it is given up

_log = structlog.get_logger("tidegate.worker")


class NoFaustServers(BootStrategy):
    """Faust's web server shows tables that are not there, and its producer cannot tell of deliveries."""

    enable_web = False
    enable_kafka_producer = False


class NoTables(TableManager):
    """Faust's tables, of which there are none: stock Faust gives agents a second to declare some."""

    async def on_start(self) -> None:
        """Subscribe at once."""
        await self._update_channels()
        await self.recovery.start()


class Application(faust.App):
    """One worker's Faust application.

    ``runtime`` is set before the first partition is assigned, ``reports`` once the agents are registered.
    """

    BootStrategy = NoFaustServers
    runtime: Runtime
    follower: JobsFollower
    reports = AgentReports()

    def __init__(self, settings: Settings, schema_ids: SchemaIds) -> None:
        self.settings = settings
        self._schema_ids = schema_ids
        self.topic_names = Topics.of(settings)
        self.assignment = Assignment(settings.drain_timeout_ms / 1000)
        self._begun = False  # once true, all that `on_stop` has to release is there
        session_s = settings.session_timeout_ms / 1000
        super().__init__(
            settings.app_id,
            broker=broker_urls(settings),
            broker_credentials=faust_credentials(settings),
            broker_session_timeout=session_s,
            broker_heartbeat_interval=session_s / _HEARTBEATS_PER_SESSION,
            broker_rebalance_timeout=settings.drain_timeout_ms / 1000 + _RELEASE_MARGIN_S,
            broker_request_timeout=max(_REQUEST_S, 2 * session_s),
            broker_max_poll_records=settings.batch_records,
            broker_commit_interval=_COMMIT_S,
            consumer_group_instance_id=settings.instance_id,
            consumer_max_fetch_size=max(_FETCH_BYTES, settings.max_record_bytes),
            stream_wait_empty=False,
            stream_recovery_delay=0.0,
            topic_allow_declare=False,
            topic_disable_leader=True,
            web_enabled=False,
            datadir=settings.home,
            TableManager="app.application:NoTables",
            Worker="app.worker:BatchWorker",
        )
        self.on_partitions_revoked.connect(self._release)

    # ---- agents

    def batch_topic(self, name: str) -> Any:
        """The topic, delivering ``FetchedBatch``es."""
        return self.topic(name, schema=BatchSchema())

    async def deliver(self, stream: Any, offer: Callable[[FetchedBatch], None]) -> None:
        """The body of an agent: every batch goes to ``offer``, and a failure ends the process.

        An exception that left the agent would acknowledge the batch and restart the agent behind it.
        """
        events: AsyncIterator[Any] = stream.noack().events()
        async for event in events:
            try:
                offer(event.value)
            except Exception as error:
                end_process(error)

    # ---- life of the process

    async def on_first_start(self) -> None:
        """Open what the worker needs, or refuse to start with a sentence."""
        try:
            await self._open()
        except TidegateError as error:
            end_process(error, EXIT_REFUSED)
        except Exception as error:
            end_process(error)  # Faust would stop the worker that has not begun, and that is no failure
        self._begun = True
        _log.info("the worker starts", log=self.topic_names.log, partitions=self.runtime.topology.partitions)

    async def _open(self) -> None:
        self.runtime = await asyncio.get_running_loop().run_in_executor(
            None, Runtime, self.settings, self._schema_ids
        )
        self.follower = JobsFollower(self.settings)
        self._watch = TopicWatch(self.runtime.admin, self.runtime.topology)
        self._status = StatusServer(self.settings, self.report, self.reports.ranges_in)
        self.runtime.directory.announce(await self._status.start())
        self._alarms = [start_stall_alarm(self.report), start_gc_alarm(self.report)]

    def report(self) -> WorkerReport:
        """What this worker has at the moment."""
        return WorkerReport(
            self.settings.app_id,
            self.settings.instance_id,
            self.topic_names.log,
            self.runtime.topology.partitions,
            self.settings.stall_alarm_ms,
            self.reports.partitions(),
            self.reports.feeds(),
            tuple(map(_registry_report, self._schema_ids.waiting())),
            self.settings.push_enabled,
            self.settings.push_age_ms,
            self.runtime.sinks.report(),
            self.reports.overlaps(),
            foreign_reports(),
        )

    def _crash(self, reason: BaseException) -> None:
        """Faust tells of a service that failed. Its shutdown may hang, and hold partitions all the while."""
        if not self.should_stop:
            end_process(reason)
        super()._crash(reason)

    async def on_stop(self) -> None:
        """Stop in order, unless nothing has begun."""
        if not self._begun:
            leave_process("the worker stops before it began; nothing was read")
        await stop_in_order(self, self._leave_group)

    async def _leave_group(self) -> None:
        await self.batches.force_commit()
        await super().on_stop()
        for alarm in self._alarms:
            alarm.cancel()
        self._watch.close()
        await self._status.stop()

    # ---- assignment

    @property
    def batches(self) -> BatchConsumer:
        """The consumer, as the one that it is."""
        consumer: BatchConsumer = self.consumer
        return consumer

    def on_rebalance_end(self) -> None:
        """Faust has finished with an assignment: open its partitions."""
        super().on_rebalance_end()
        self.assignment.take_up(self.consumer.assignment())

    async def _release(self, *_: Any, **__: Any) -> None:
        await self.assignment.release()

    # ---- Faust's hooks

    def _new_transport(self) -> BatchTransport:
        return BatchTransport(self.conf.broker_consumer, self)

    def _new_producer_transport(self) -> BatchTransport:
        return BatchTransport(self.conf.broker_producer, self)

    def _create_directories(self) -> None:
        """The data directory is ours (``tidegate.worker.process.data_dir``)."""


async def stop_in_order(app: Shell, leave_group: Callable[[], Awaitable[None]]) -> None:
    """Finish what is in flight, leave the group, release the directory and the sink.

    Ends the process where any of that takes too long, or fails.
    """
    loop = asyncio.get_running_loop()
    late = loop.call_later(app.settings.drain_timeout_ms / 1000 + _STOP_MARGIN_S, _end_late)
    try:
        await app.assignment.close()
        late.cancel()
        loop.call_later(_STOP_MARGIN_S, _leave_late)
        await leave_group()
        await loop.run_in_executor(None, app.follower.close)
        await loop.run_in_executor(None, app.runtime.close)
    except Exception as error:
        end_process(error)
    _log.info("everything in flight is durable; the worker stops")


def _registry_report(wait: RegistryWait) -> RegistryReport:
    waiting_ms = int((time.monotonic() - wait.since) * 1000)
    return RegistryReport(wait.feed_id, wait.registry, waiting_ms, wait.tries, wait.cause)


def _leave_late() -> None:
    """Leaving the group takes too long. Its session expires by itself, and nothing else is left to do."""
    leave_process("everything in flight is durable; the worker stops without having left the group")


def _end_late() -> None:
    """Releasing the partitions takes too long: what matters was done by now, or never will be."""
    end_process(FatalError("the worker did not come to its end in time after it was told to stop"))

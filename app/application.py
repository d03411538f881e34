"""The Faust application: consumer group, assignment and agents.

Faust does not deliver rows (docs/protocols/batches.md).
"""

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
from tidegate.worker.feeds.unused_clients import UnusedClients
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
_FETCH_BYTES: Final = 4 << 20  # for each partition and fetch, at least
_HEARTBEATS_PER_SESSION: Final = 4
_COMMIT_S: Final = 5.0
_STOP_MARGIN_S: Final = 15.0  # time to leave the group, after the drain
_RELEASE_MARGIN_S: Final = 30.0  # the group waits so much longer than a drain before it gives a member up

_log = structlog.get_logger("tidegate.worker")


class NoFaustServers(BootStrategy):
    """The start of Faust without two of its services.

    Faust's web server would show tables that are not there. Its producer cannot tell of deliveries.
    """

    enable_web = False
    enable_kafka_producer = False


class NoTables(TableManager):
    """Faust's manager of tables, for an application that has no tables."""

    async def on_start(self) -> None:
        """Subscribe at once; stock Faust first waits a second for agents to declare tables."""
        await self._update_channels()
        await self.recovery.start()


class Application(faust.App):
    """One worker's Faust application.

    ``runtime`` is set before the first partition is assigned. ``follower`` is set when the application
    starts. ``reports`` is empty until the agents are registered.
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
        self._begun = False  # whether everything that `on_stop` has to release is open
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
        """Return the topic ``name``. Its messages have ``FetchedBatch``es as values."""
        return self.topic(name, schema=BatchSchema())

    async def deliver(self, stream: Any, receive: Callable[[FetchedBatch], None]) -> None:
        """Give every batch of the stream to ``receive``. This is the body of an agent.

        A failure ends the process. If an exception left the agent instead, Faust would acknowledge the batch
        and restart the agent after it.
        """
        events: AsyncIterator[Any] = stream.noack().events()
        async for event in events:
            try:
                receive(event.value)
            except Exception as error:
                end_process(error)

    # ---- life of the process

    async def on_first_start(self) -> None:
        """Open what the worker needs. If that fails, say why in a sentence, and refuse to start."""
        try:
            await self._open()
        except TidegateError as error:
            end_process(error, EXIT_REFUSED)
        except Exception as error:
            end_process(error)  # Faust would stop the worker in an orderly way, with status 0
        self._begun = True
        _log.info("the worker starts", log=self.topic_names.log, partitions=self.runtime.topology.partitions)

    async def _open(self) -> None:
        self.runtime = await asyncio.get_running_loop().run_in_executor(
            None, Runtime, self.settings, self._schema_ids
        )
        self.follower = JobsFollower(self.settings)
        self._watch = TopicWatch(self.runtime.admin, self.runtime.topology)
        self._unused = UnusedClients(self.runtime.sinks, self._schema_ids, self.follower.view)
        self._status = StatusServer(self.settings, self.report, self.reports.ranges_in)
        self.runtime.directory.announce(await self._status.start())
        self._alarms = [start_stall_alarm(self.report), start_gc_alarm(self.report)]

    def report(self) -> WorkerReport:
        """Report on everything that this worker has now."""
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
        """End the process, since a service of Faust has failed, unless the application is stopping already.

        In an orderly shutdown the failed service could hang, and the worker would keep its partitions.
        """
        if not self.should_stop:
            end_process(reason)
        super()._crash(reason)

    async def on_stop(self) -> None:
        """Stop in order. If nothing has begun, only end the process."""
        if not self._begun:
            leave_process("the worker stops before it began; nothing was read")
        await stop_in_order(self, self._leave_group)

    async def _leave_group(self) -> None:
        await self.batches.force_commit()
        await super().on_stop()
        for alarm in self._alarms:
            alarm.cancel()
        self._watch.close()
        self._unused.close()
        await self._status.stop()

    # ---- assignment

    @property
    def batches(self) -> BatchConsumer:
        """Faust's consumer of this application, typed as the ``BatchConsumer`` that it is."""
        consumer: BatchConsumer = self.consumer
        return consumer

    def on_rebalance_end(self) -> None:
        """Open the assigned partitions. Faust calls this at the end of a rebalance."""
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
        """Create nothing: ``tidegate.worker.process.data_dir`` makes the data directory."""


async def stop_in_order(app: Shell, leave_group: Callable[[], Awaitable[None]]) -> None:
    """Finish the batches in flight, leave the group, and release everything that the worker holds open.

    Ends the process if any of that takes too long, or fails.
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
    """End the process because leaving the group takes too long.

    Nothing else is left to do, and the group drops the member when its session expires.
    """
    leave_process("everything in flight is durable; the worker stops without having left the group")


def _end_late() -> None:
    """End the process because the release of the partitions takes too long. Their next owners go on."""
    end_process(FatalError("the worker did not come to its end in time after it was told to stop"))

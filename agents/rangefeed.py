"""The rangefeed agent: makes rows, state and checkpoints from the range store's log.

The modules on the right are those of ``tidegate.worker``. docs/protocols/batches.md has the reason for each
step, and says what remains after a crash that follows the step.

Opening a partition:

    O1  fence the predecessor: ``init_transactions`` of
        ``<app>-<partition>``                                           state.partition_writer
    O2  bring the local copy of state up to date with the changelogs    state.changelog
    O3  rebuild the partition processor                                 log_partition.partition_state
    O4  compare its position with the start of the log                  kafka.intake
    O5  seek the control topic, the hand-off topic and the log to
        the positions in the state; without a state, seek the log
        only after the control topic is read                            log_partition.log_partition
    O6  publish the whole checkpoint before the first batch of the log  commit.commit_loop

One batch:

    1   take it, if it starts where the previous one ended              kafka.intake
    2   step the processor; freeze what changed                         commit.stepper
    2a  frame: put schema ids into rows of formats with schemas         commit.framing
    3   produce every row, counted by the batch's barrier               output.row_producer
    4   wait until every row is acknowledged, in the order of batches   commit.commit_loop
    5   write state, checkpoints, answers and requests                  state.partition_writer
    6   commit that transaction                                         tidegate.client.kafka.transaction
    7   copy the state rows to the local store                          state.store
    8   complete: the batch is in flight no more; report its offset     commit.commit_loop

The agent itself only passes batches on. Each partition has a commit loop with a bounded queue of its own, so
that a slow or held partition does not hold back the others.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import structlog

from tables import TABLES
from tidegate.processor.containment import Caution, StepBroke
from tidegate.spans import Span
from tidegate.worker.kafka.fetched import FetchedBatch
from tidegate.worker.log_partition.log_ends import watch_ends
from tidegate.worker.log_partition.log_partition import LogPartition
from tidegate.worker.log_partition.partition_state import Stores
from tidegate.worker.log_partition.standby import Standby
from tidegate.worker.operations.metrics import STEPS_BROKEN
from tidegate.worker.operations.report import PartitionReport, SpanReport
from tidegate.worker.process.ending import guarded_task
from tidegate.worker.shell import Shell
from tidegate.worker.state.store import OpenStore, rocks_stores

_log = structlog.get_logger("tidegate.rangefeed")


class LogPartitions:
    """The log partitions that this worker holds."""

    def __init__(self, app: Shell, open_store: OpenStore) -> None:
        self._app = app
        self._stores = Stores(app.settings, open_store)
        self._standby: Standby | None = None
        self.open: dict[int, LogPartition] = {}
        self._leaving: dict[int, LogPartition] = {}
        self._ends: asyncio.Task[None] | None = None
        self._reopening: set[asyncio.Task[None]] = set()

    def assigned(self, partition: int) -> None:
        """Begin to open the partition."""
        if self._ends is None:
            watch = watch_ends(lambda: [held.log for held in self.open.values()], lambda: self._app.batches)
            self._ends = guarded_task(watch, "log ends")
        self._take_up(partition, Caution())

    def _take_up(self, partition: int, caution: Caution) -> None:
        self.open[partition] = LogPartition(
            self._app, partition, self._stores, self._standby, caution=caution, broke=self._reopen
        )

    def _reopen(self, broken: LogPartition, broke: StepBroke) -> None:
        """Open again a partition whose step broke: steps U2 and U3 of docs/security.md.

        The partition goes on from its durable state, more carefully. If more care cannot help, the process
        ends.
        """
        STEPS_BROKEN.labels(broken.partition).inc()
        reopening = guarded_task(self._open_again(broken, broke), f"reopen {broken.partition}")
        self._reopening.add(reopening)
        reopening.add_done_callback(self._reopening.discard)

    async def _open_again(self, broken: LogPartition, broke: StepBroke) -> None:
        if broke.record is not None:
            runtime, loop = self._app.runtime, asyncio.get_running_loop()
            keep = partial(runtime.refused.keep, broken.partition, broke.record)
            await loop.run_in_executor(runtime.threads.commits, keep)
        caution = broken.caution.after(broke)
        _log.error("a step broke; the partition is opened again", partition=broken.partition, exc_info=broke)
        await broken.release()
        if self.open.get(broken.partition) is broken:  # it may have been released meanwhile
            self._take_up(broken.partition, caution)

    def receive_batch(self, batch: FetchedBatch) -> None:
        """Receive a batch of the log (step 1)."""
        held = self.open.get(batch.partition)
        if held is not None:
            held.log.receive_batch(batch)

    def receive_control(self, batch: FetchedBatch) -> None:
        """Receive a batch of messages about feeds."""
        held = self.open.get(batch.partition)
        if held is not None:
            held.control.receive_batch(batch)

    def receive_exchanges(self, batch: FetchedBatch) -> None:
        """Receive a batch of claims and hand-offs."""
        held = self.open.get(batch.partition)
        if held is not None:
            held.hand_offs.receive_batch(batch)

    def report(self) -> tuple[PartitionReport, ...]:
        """Report on the partitions as they are now."""
        return tuple(held.report() for _, held in sorted(self.open.items()))

    async def ranges_in(self, span: Span) -> tuple[SpanReport, ...]:
        """Return the ranges that have keys of ``span``, by partition.

        Partitions being restored are left out.
        """
        asked = [held.ranges_in(span) for _, held in sorted(self.open.items())]
        return tuple(report for report in await asyncio.gather(*asked) if report is not None)

    async def released(self) -> None:
        """Close every partition. This is called before each assignment, also before the first one."""
        await self._pause_standby()
        if self._ends is not None:
            self._ends.cancel()
            self._ends = None
        self._leaving, self.open = self.open, {}
        await asyncio.gather(*(held.release() for held in self._leaving.values()))
        self._leaving = {}
        self._stores.close()

    async def _pause_standby(self) -> None:
        settings, runtime = self._app.settings, self._app.runtime
        if self._standby is not None:
            await asyncio.get_running_loop().run_in_executor(runtime.threads.commits, self._standby.pause)
        elif settings.standby_refresh_ms:
            self._standby = Standby(settings, runtime, self._stores.open_copy, self._is_held)

    def _is_held(self, partition: int) -> bool:
        return partition in self.open or partition in self._leaving


def rangefeed_agent(app: Shell, open_store: OpenStore | None = None) -> LogPartitions:
    """Register the agent with the application. Returns the partitions that it brings batches to.

    State is kept in RocksDB, unless ``open_store`` opens another kind of store.
    """
    partitions = LogPartitions(app, open_store or rocks_stores(TABLES))
    app.assignment.hold(app.topic_names.log, partitions)

    @app.agent(app.batch_topic(app.topic_names.log), name="rangefeed", concurrency=1)
    async def rangefeed(stream: Any) -> None:
        await app.deliver(stream, partitions.receive_batch)

    return partitions

"""Faust's aiokafka transport, changed to deliver whole fetches: one Faust message per partition and fetch.

What differs from the stock driver, and why (evidence: docs/design/2026-11-21-batch-transport.md):

* A message's value is a ``FetchedBatch``. Per-record delivery costs 170 us a record, this 9.
* Each batch is stamped, inside the consumer's thread, with the positions before and after it, so that its
  receiver can tell whether it follows on the last one. Generation checks made later are racy.
* Faust does not decide where reading starts or which partitions flow: ``open_partition`` does, once the
  partition's state is restored. Faust's own seek to committed offsets is skipped.
* Nothing is acknowledged through streams. Positions that are durable are handed in by ``completed`` and
  committed from time to time, for lag monitoring alone.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any, ClassVar, Final

import aiokafka
import structlog
from aiokafka import TopicPartition
from aiokafka.errors import KafkaError
from faust import Schema
from faust.events import Event
from faust.transport.drivers import aiokafka as driver
from faust.types import TP, AppT, ConsumerMessage, EventT
from mode import Service

from tidegate.errors import FatalError
from tidegate.worker.kafka.fetched import FetchedBatch
from tidegate.worker.kafka.membership import Membership, take_out
from tidegate.worker.process.ending import end_process

_LONG_POLL_MS: Final = 100  # a partition that flows again waits at most this long for its next fetch
_WATCH_S: Final = 1.0
_LOOK_S: Final = 0.05  # the group waits for a dead member until it is told
_COMMIT_WAIT_S: Final = 5.0  # without a coordinator aiokafka tries for ever, and a stopping worker waits
_DRAIN_WAIT_S: Final = 0.05  # the same for one whose records have been fetched already

_log = structlog.get_logger("tidegate.transport")


class BatchSchema(Schema):
    """Passes batches through undecoded."""

    def compile(self, app: AppT, **_: Any) -> Any:
        """The decoder that Faust calls for each message."""

        async def decode(message: Any, *, propagate: bool = False) -> EventT:  # noqa: ARG001 - Faust's signature
            return Event(app, None, message.value, message.headers, message)

        return decode


class BatchConsumerThread(driver.AIOKafkaConsumerThread):
    """The thread that owns the aiokafka consumer."""

    def _create_worker_consumer(self, transport: Any) -> aiokafka.AIOKafkaConsumer:
        conf = self.app.conf
        self._assignor = self.app.assignor  # keeps log and control partitions of one number together
        return aiokafka.AIOKafkaConsumer(
            client_id=conf.broker_client_id,
            group_id=conf.id,
            group_instance_id=conf.consumer_group_instance_id,
            bootstrap_servers=driver.server_list(transport.url, transport.default_port),
            partition_assignment_strategy=[self._assignor],
            enable_auto_commit=False,
            auto_offset_reset="earliest",  # the receiver notices a reset: the batch does not follow
            isolation_level="read_committed",
            max_poll_records=conf.broker_max_poll_records,
            max_poll_interval_ms=math.inf,  # see _watch: our fetches are no polls that aiokafka would count
            max_partition_fetch_bytes=conf.consumer_max_fetch_size,
            fetch_max_wait_ms=_LONG_POLL_MS,
            request_timeout_ms=int(conf.broker_request_timeout * 1000),
            session_timeout_ms=int(conf.broker_session_timeout * 1000),
            rebalance_timeout_ms=int(conf.broker_rebalance_timeout * 1000),
            heartbeat_interval_ms=int(conf.broker_heartbeat_interval * 1000),
            **driver.credentials_to_aiokafka_auth(conf.broker_credentials, conf.ssl_context),
        )

    @Service.task
    async def _watch(self) -> None:
        """End the process when the group or the fetching fails for good.

        aiokafka keeps such errors for the next call of its own polls, and waits for it. Neither is a worker
        taken for idle because it makes none: that it goes on working shows in heartbeats and stall alarm.
        """
        while not self.should_stop:
            await self.sleep(_WATCH_S)
            if self._consumer is not None and not self.should_stop:
                try:
                    _require_well(self._consumer)
                except KafkaError as error:
                    end_process(_group_failure(error))
                except Exception as error:
                    end_process(error)

    @Service.task
    async def _take_place(self) -> None:
        """Leave word of this member, and take those of dead processes out
        (``tidegate/worker/kafka/membership.py``)."""
        fixed = self.app.conf.consumer_group_instance_id is not None
        membership = Membership(self.app.runtime.directory, fixed=fixed)
        while not self.should_stop:
            await self.sleep(_WATCH_S if membership.settled else _LOOK_S)
            coordinator = None if self._consumer is None else self._consumer._coordinator  # noqa: SLF001
            if coordinator is None or not coordinator.member_id:
                continue  # it has not asked to be let in
            membership.note(coordinator.member_id)
            if membership.dead and await take_out(coordinator, self._consumer._client, membership.dead):  # noqa: SLF001
                membership.forget_dead()

    async def getmany(self, active_partitions: Any, timeout: float) -> Any:  # noqa: ASYNC109 - Faust's signature
        """Fetch for a set of our own: the loop changes the one that it keeps, and this is another thread."""
        return await super().getmany(frozenset(active_partitions or ()), timeout)

    async def _fetch_records(
        self,
        consumer: Any,
        active_partitions: frozenset[TP],
        timeout: float | None = None,  # noqa: ARG002, ASYNC109 - Faust's signature
        max_records: int | None = None,
    ) -> list[FetchedBatch]:
        batches = await self._drain(consumer, active_partitions, max_records)
        if not batches:
            await _arrival(consumer._fetcher)  # noqa: SLF001
            batches = await self._drain(consumer, active_partitions, max_records)
        return batches

    async def _drain(
        self, consumer: Any, active: frozenset[TP], max_records: int | None
    ) -> list[FetchedBatch]:
        """What has arrived for the active partitions.

        With a timeout of zero ``fetched_records`` never gives way to another coroutine, unless a rebalance
        is under way: so no seek can come between the positions before it and its records.
        """
        subscription = consumer._subscription.subscription  # noqa: SLF001
        assignment = None if subscription is None else subscription.assignment
        if assignment is None or not assignment.active or consumer._subscription.reassignment_in_progress:  # noqa: SLF001
            return []
        states = {tp: assignment.state_value(tp) for tp in active if tp in assignment.tps}
        if not states:
            return []  # to the fetcher no partitions are all partitions
        before = {tp: state.position for tp, state in states.items() if state.has_valid_position}
        fetched = await consumer._fetcher.fetched_records(  # noqa: SLF001
            states.keys(), timeout=0, max_records=max_records
        )
        return [
            FetchedBatch(
                tp.topic,
                tp.partition,
                start,
                states[tp].position,
                states[tp].highwater or states[tp].position,
                fetched.get(tp, ()),
            )
            for tp, start in before.items()
            if tp in fetched or (states[tp].has_valid_position and states[tp].position != start)
        ]

    async def _commit(self, offsets: Mapping[TP, int]) -> bool:
        """Commit for lag monitoring; failing is no reason to stop, the next commit says more."""
        assigned = self.assignment()
        held = {TopicPartition(*tp): offset for tp, offset in offsets.items() if tp in assigned}
        try:
            if held:
                await asyncio.wait_for(self._ensure_consumer().commit(held), _COMMIT_WAIT_S)
        except (KafkaError, TimeoutError) as error:
            _log.warning("the group's offsets were not committed", cause=str(error) or repr(error))
            return False
        return True

    async def committed(self, tp: TP) -> int | None:
        """The group's offset; called by the loop."""
        offset: int | None = await self.call_thread(self._ensure_consumer().committed, tp)
        return offset

    def verify_event_path(self, now: float, tp: TP) -> None:
        """Faust's livelock detector compares two different clocks; ours is the stall alarm."""


async def _arrival(fetcher: Any) -> None:
    """Wait a moment for records. A waiter that was left behind would stay until records come for it."""
    waiter = fetcher._create_fetch_waiter()  # noqa: SLF001
    done, _ = await asyncio.wait([waiter], timeout=_DRAIN_WAIT_S)
    if done:
        waiter.exception()  # the coordinator puts its failures here, too; they are kept for `_watch`
    else:
        waiter.cancel()


def _require_well(consumer: Any) -> None:
    """Raise what the coordinator or the fetcher of the consumer failed with."""
    if consumer._coordinator is None:  # noqa: SLF001
        return  # it has not begun
    consumer._coordinator.check_errors()  # noqa: SLF001
    fetching = consumer._fetcher.error_future  # noqa: SLF001
    if fetching.done() and not fetching.cancelled():
        fetching.result()


def _group_failure(error: KafkaError) -> FatalError:
    return FatalError(
        f"This worker cannot be a member of its consumer group any more: {error!r}. Nothing is lost, another "
        "worker takes its partitions. Check that this user may read the group, and that session_timeout_ms "
        "lies within the brokers' group.min.session.timeout.ms and group.max.session.timeout.ms"
    )


class BatchConsumer(driver.Consumer):
    """The loop's side of the consumer."""

    _thread: BatchConsumerThread

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._completed: dict[TP, int] = {}

    def _new_consumer_thread(self) -> BatchConsumerThread:
        return BatchConsumerThread(self, loop=self.loop, beacon=self.beacon)

    # ---- reading

    async def getmany(self, timeout: float) -> AsyncIterator[tuple[TP, ConsumerMessage]]:  # noqa: ASYNC109
        """Messages of one fetch, a batch each."""
        generation = self.app.consumer_generation_id
        batches, _ = await self._wait_next_records(timeout)
        if self.should_stop or not self.flow_active or generation != self.app.consumer_generation_id:
            return  # a new assignment opens its partitions anew
        for batch in batches or ():
            tp = TP(batch.topic, batch.partition)
            yield tp, _message(tp, batch, generation)

    async def _wait_next_records(self, timeout: float) -> Any:  # noqa: ASYNC109
        if self.flow_active and not self._get_active_partitions():
            await asyncio.sleep(_DRAIN_WAIT_S)  # the stock driver sleeps for a second
            return [], None
        return await super()._wait_next_records(timeout)

    async def _add_gap(self, *_: Any) -> None:
        """Faust's account of missing offsets serves its acknowledgements, which are not used."""

    # ---- flow: ours to decide, partition by partition

    async def open_partition(self, tp: TP, offset: int) -> None:
        """Let the partition flow from ``offset`` on."""
        await self.seek_wait({tp: offset})
        super().resume_partitions({tp})

    def halt_partition(self, tp: TP) -> None:
        """Fetch nothing more of the partition for now; what is on its way still comes."""
        self.pause_partitions({tp})

    def continue_partition(self, tp: TP) -> None:
        """Fetch the partition again, from where it was halted."""
        super().resume_partitions({tp})

    def resume_partitions(self, tps: Iterable[TP]) -> None:
        """Not by Faust: it would let partitions flow before their state is restored."""

    async def perform_seek(self) -> None:
        """Not by Faust: where reading starts is part of the state."""

    def on_buffer_full(self, tp: TP) -> None:
        """Not by Faust's queues: receivers halt and continue their partitions themselves."""

    def on_buffer_drop(self, tp: TP) -> None:
        """As above."""

    # ---- the group's offsets

    def completed(self, tp: TP, offset: int) -> None:
        """Everything below ``offset`` is done with; the next commit to the group says so."""
        self._completed[tp] = offset

    async def committed_or_earliest(self, tp: TP) -> int:
        """Where the group left off, for topics that may be read again or not: the checkpoints.

        An offset that the topic does not have is of an earlier topic of that name.
        """
        committed: int | None = await self._thread.committed(tp)
        first, end = (await self.earliest_offsets(tp))[tp], (await self.highwaters(tp))[tp]
        return int(first if committed is None or not first <= committed <= end else committed)

    def ack(self, message: Any) -> bool:
        """Streams acknowledge events that they skip, too: this means nothing here."""
        message.acked = True
        self._unacked_messages.discard(message)
        return True

    async def force_commit(self, *_: Any, **__: Any) -> bool:
        """Commit what was completed since the last time."""
        completed, self._completed = self._completed, {}
        return await self._commit(completed) if completed else False


def _message(tp: TP, batch: FetchedBatch, generation: int) -> ConsumerMessage:
    return ConsumerMessage(
        topic=tp.topic,
        partition=tp.partition,
        offset=max(batch.end - 1, 0),
        timestamp=0.0,
        timestamp_type=0,
        headers=(),
        key=None,
        value=batch,
        checksum=None,
        tp=tp,
        generation_id=generation,
    )


class BatchTransport(driver.Transport):
    """Chosen by ``app.application``."""

    Consumer: ClassVar[type[BatchConsumer]] = BatchConsumer

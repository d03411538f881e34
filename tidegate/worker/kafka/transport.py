"""Faust's aiokafka transport, changed to deliver whole fetches: one Faust message per partition and fetch.

What differs from the stock driver, and why (evidence: docs/design/2026-11-21-batch-transport.md):

* A message's value is a ``FetchedBatch``. To deliver each record alone costs 170 us a record. To deliver
  fetches costs 9 us a record.
* The consumer's thread stamps each batch with the positions before and after it. So the receiver can tell
  whether a batch follows the last one. Checks of the generation come later, and are racy.
* Faust does not decide where reading starts or which partitions flow: ``open_partition`` does, once the
  partition's state is restored. Faust's own seek to committed offsets is skipped.
* Nothing is acknowledged through streams. ``completed`` takes positions that are durable. They are committed
  to the group from time to time, for lag monitoring alone.
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
from tidegate.worker.kafka.any_headers import read_any_headers
from tidegate.worker.kafka.fetched import FetchedBatch
from tidegate.worker.kafka.membership import Membership, take_out
from tidegate.worker.process.ending import end_process

_LONG_POLL_MS: Final = 100  # a partition that flows again waits at most this long for its next fetch
_WATCH_S: Final = 1.0
_LOOK_S: Final = 0.05  # short, since the group waits for a dead member until it is told
_COMMIT_WAIT_S: Final = 5.0  # without a coordinator aiokafka tries for ever, and a stopping worker waits
_DRAIN_WAIT_S: Final = 0.05  # a partition whose records are fetched already waits at most this long

_log = structlog.get_logger("tidegate.transport")


class BatchSchema(Schema):
    """The schema of a stream of batches: it passes them through undecoded."""

    def compile(self, app: AppT, **_: Any) -> Any:
        """Make the decoder that Faust calls for each message."""

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
        """End the process when the group or the fetching has failed, and aiokafka does not recover.

        aiokafka keeps such errors until the next call of its own polls, which this consumer never makes. For
        the same reason aiokafka must not judge that the worker is idle (``max_poll_interval_ms``): heartbeats
        and the stall alarm show whether it works.
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
        """Note this member's name, and take members of dead processes out of the group.

        ``tidegate/worker/kafka/membership.py`` says why.
        """
        fixed = self.app.conf.consumer_group_instance_id is not None
        membership = Membership(self.app.runtime.directory, fixed=fixed)
        while not self.should_stop:
            await self.sleep(_WATCH_S if membership.settled else _LOOK_S)
            coordinator = None if self._consumer is None else self._consumer._coordinator  # noqa: SLF001
            if coordinator is None or not coordinator.member_id:
                continue  # this worker has not asked to join yet
            membership.note(coordinator.member_id)
            if membership.dead and await take_out(coordinator, self._consumer._client, membership.dead):  # noqa: SLF001
                membership.forget_dead()

    async def getmany(self, active_partitions: Any, timeout: float) -> Any:  # noqa: ASYNC109 - Faust's signature
        """Fetch for a copy of ``active_partitions``: the loop changes the set, and runs in another thread."""
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
        """Take the records that have arrived for the active partitions.

        With a timeout of zero ``fetched_records`` never gives way to another coroutine, unless a rebalance
        is under way. So no seek can come between reading the positions and taking the records.
        """
        subscription = consumer._subscription.subscription  # noqa: SLF001
        assignment = None if subscription is None else subscription.assignment
        if assignment is None or not assignment.active or consumer._subscription.reassignment_in_progress:  # noqa: SLF001
            return []
        states = {tp: assignment.state_value(tp) for tp in active if tp in assignment.tps}
        if not states:
            return []  # the fetcher takes an empty set for all partitions
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
        """Commit offsets for lag monitoring. Returns ``False`` on failure.

        A failure does no harm: the next commit has higher offsets.
        """
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
        """Ask for the group's offset of a partition. Called in the event loop's thread."""
        offset: int | None = await self.call_thread(self._ensure_consumer().committed, tp)
        return offset

    def verify_event_path(self, now: float, tp: TP) -> None:
        """Do nothing: Faust's livelock detector compares two different clocks. We have the stall alarm."""


async def _arrival(fetcher: Any) -> None:
    """Wait for records, for ``_DRAIN_WAIT_S`` at most. Then cancel the waiter: else it would stay."""
    waiter = fetcher._create_fetch_waiter()  # noqa: SLF001
    done, _ = await asyncio.wait([waiter], timeout=_DRAIN_WAIT_S)
    if done:
        waiter.exception()  # marks a failure of the coordinator as seen; `_watch` finds it elsewhere
    else:
        waiter.cancel()


def _require_well(consumer: Any) -> None:
    """Raise the error with which the coordinator or the fetcher of the consumer has failed, if one has."""
    if consumer._coordinator is None:  # noqa: SLF001
        return  # the consumer has not begun
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
    """The consumer as the event loop sees it."""

    _thread: BatchConsumerThread

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._completed: dict[TP, int] = {}

    def _new_consumer_thread(self) -> BatchConsumerThread:
        return BatchConsumerThread(self, loop=self.loop, beacon=self.beacon)

    # ---- reading

    async def getmany(self, timeout: float) -> AsyncIterator[tuple[TP, ConsumerMessage]]:  # noqa: ASYNC109
        """Yield the messages of one fetch. Each has one batch."""
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
        """Do nothing: Faust notes missing offsets for its acknowledgements, which are not used."""

    # ---- flow: ours to decide, partition by partition

    async def open_partition(self, tp: TP, offset: int) -> None:
        """Let the partition flow from ``offset`` on."""
        await self.seek_wait({tp: offset})
        super().resume_partitions({tp})

    def halt_partition(self, tp: TP) -> None:
        """Stop fetching the partition for now. Batches that are on their way still come."""
        self.pause_partitions({tp})

    def continue_partition(self, tp: TP) -> None:
        """Fetch the partition again, from where it was halted."""
        super().resume_partitions({tp})

    def resume_partitions(self, tps: Iterable[TP]) -> None:
        """Do nothing for Faust: it would let partitions flow before their state is restored."""

    async def perform_seek(self) -> None:
        """Do nothing for Faust: where reading starts is part of the state."""

    def on_buffer_full(self, tp: TP) -> None:
        """Do nothing for Faust's queues: receivers halt and continue their partitions themselves."""

    def on_buffer_drop(self, tp: TP) -> None:
        """Do nothing, as in ``on_buffer_full``."""

    # ---- the group's offsets

    def completed(self, tp: TP, offset: int) -> None:
        """Note that everything below ``offset`` is done. The next commit to the group says so."""
        self._completed[tp] = offset

    async def committed_or_earliest(self, tp: TP) -> int:
        """Return the group's committed offset, or the start of the partition if there is none.

        It is for the checkpoints topic, whose records may be read twice or skipped. A committed offset that
        the topic does not have belongs to an earlier topic of that name, and does not count.
        """
        committed: int | None = await self._thread.committed(tp)
        first, end = (await self.earliest_offsets(tp))[tp], (await self.highwaters(tp))[tp]
        return int(first if committed is None or not first <= committed <= end else committed)

    def ack(self, message: Any) -> bool:
        """Forget the message, and do nothing else: streams also acknowledge events that they skip."""
        message.acked = True
        self._unacked_messages.discard(message)
        return True

    async def force_commit(self, *_: Any, **__: Any) -> bool:
        """Commit the offsets that were completed since the last time."""
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
    """Faust's transport, with ``BatchConsumer`` as its consumer. ``app.application`` chooses it."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        read_any_headers()
        super().__init__(*args, **kwargs)

    Consumer: ClassVar[type[BatchConsumer]] = BatchConsumer

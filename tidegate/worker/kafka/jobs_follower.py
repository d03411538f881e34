"""Reads the jobs topic from its beginning, and follows it, in a thread of its own.

Every worker needs the whole topic, for agents of several partitions. So it is not read through the consumer
group.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, Final, NamedTuple

import structlog
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from tidegate.changefeed.definition.feed import FeedId
from tidegate.changefeed.lifecycle.jobs import JobsView
from tidegate.client.foreign_records import foreign
from tidegate.client.kafka.topic_admin import insist
from tidegate.client.kafka.topics import Topics
from tidegate.worker.kafka.foreign_records import report_foreign
from tidegate.worker.kafka.own_reader import is_end, is_record, open_reader, trouble
from tidegate.worker.process.ending import end_process
from tidegate.worker.process.machine import REAL, Machine
from tidegate.worker.process.settings import Settings

_RECORDS: Final = 1_000
_WAIT_S: Final = 0.05
_REQUEST_S: Final = 10.0

_log = structlog.get_logger("tidegate.jobs")


class _End(NamedTuple):
    """An end of the topic that somebody waits for.

    If ``stable``, it lies where the oldest open transaction begins; otherwise it is the end of all records.
    """

    stable: bool
    reached: asyncio.Future[None]


class JobsFollower:
    """The jobs topic as this worker knows it.

    ``view`` has every committed record up to some place near the end of the topic. The loop calls each
    listener's ``on_change`` with each feed about which a record was read.
    """

    def __init__(self, settings: Settings, machine: Machine = REAL) -> None:
        self.view = JobsView()
        self._place = TopicPartition(Topics.of(settings).jobs, 0, OFFSET_BEGINNING)
        self._loop = asyncio.get_running_loop()
        self._listeners: list[Callable[[FeedId], None]] = []
        self._end = 0
        self._asked: SimpleQueue[_End] = SimpleQueue()
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []
        self._closed = threading.Event()
        self._consumer = _consumer(settings, machine, "read_committed")
        # This consumer reads no records. It only asks for the end of the topic.
        self._uncommitted = _consumer(settings, machine, "read_uncommitted")
        self._thread = machine.background(self._follow, "jobs-follower")

    def listen(self, on_change: Callable[[FeedId], None]) -> None:
        """Call ``on_change`` from now on, and at once for every feed that is known already."""
        self._listeners.append(on_change)
        for feed_id, _ in self.view.feeds():
            on_change(feed_id)

    def forget(self, on_change: Callable[[FeedId], None]) -> None:
        """Call ``on_change`` no more. Does nothing if it is no listener."""
        self._listeners = [listener for listener in self._listeners if listener != on_change]

    async def read_to_end(self, closing: asyncio.Event) -> bool:
        """Wait until ``view`` has all records that are on the topic now. Returns ``False`` once ``closing``.

        An open transaction hides the records that are committed after it, so this waits until the transaction
        ends. If the transaction's writer has died, the first act of that writer's successor ends it (M0). So
        a caller must do its own first act before it waits here. Otherwise two callers could wait for each
        other.
        """
        reached = self._ask(stable=False)
        closed = asyncio.ensure_future(closing.wait())
        try:
            await asyncio.wait((reached, closed), return_when=asyncio.FIRST_COMPLETED)
        finally:
            closed.cancel()
            reached.cancel()
        return not closing.is_set()

    async def read_to_stable_end(self) -> None:
        """Wait until ``view`` has all records before the oldest open transaction.

        This does not wait until a transaction ends.
        """
        await self._ask(stable=True)

    def close(self) -> None:
        """Stop following."""
        self._closed.set()
        self._thread.join()
        self._consumer.close()
        self._uncommitted.close()

    def _ask(self, *, stable: bool) -> asyncio.Future[None]:
        reached: asyncio.Future[None] = self._loop.create_future()
        self._asked.put(_End(stable, reached))
        return reached

    def _offset_of(self, end: _End) -> int:
        """Ask Kafka for the last stable offset if ``end`` is ``stable``, otherwise for the end of the topic.

        A reader of committed records can ask only for the last stable offset. So a reader of uncommitted
        records asks for the end.
        """
        reader = self._consumer if end.stable else self._uncommitted
        topic = self._place.topic
        bounds = insist(
            f"end of the topic of jobs, {topic}",
            lambda: reader.get_watermark_offsets(self._place, timeout=_REQUEST_S),
            lambda: reader.list_topics(topic, timeout=_REQUEST_S),
            "Look whether the topic was deleted, and whether the worker's user may read it",
        )
        return int(bounds[1])

    def _follow(self) -> None:
        try:
            self._consumer.assign([self._place])
            while not self._closed.is_set():
                messages = self._consumer.consume(_RECORDS, _WAIT_S)
                self._check(messages)
                asked = self._take_asked()
                if messages or asked:
                    self._loop.call_soon_threadsafe(self._receive, messages, asked)
        except BaseException as error:  # no other thread would see it
            if not self._closed.is_set():
                end_process(error)

    def _take_asked(self) -> list[tuple[int, asyncio.Future[None]]]:
        """Take out and return the ends that were asked for since the last time, each with its offset."""
        asked = []
        while not self._asked.empty():
            end = self._asked.get_nowait()
            asked.append((self._offset_of(end), end.reached))
        return asked

    def _check(self, messages: list[Any]) -> None:
        for message in messages:
            if cause := trouble(message, f"The topic {self._place.topic}"):
                _log.warning("following the jobs waits for Kafka", cause=cause)

    def _receive(self, messages: list[Any], asked: list[tuple[int, asyncio.Future[None]]]) -> None:
        """Take records and questions, in the loop.

        An exception ends the process, since the loop would only log it.
        """
        try:
            self._apply(messages, asked)
        except Exception as error:
            end_process(error)

    def _apply(self, messages: list[Any], asked: list[tuple[int, asyncio.Future[None]]]) -> None:
        changed: dict[FeedId, None] = {}
        for message in messages:
            if is_record(message):
                try:
                    changed[self.view.apply(message.key(), message.value())] = None
                except Exception as error:
                    report_foreign(message.topic(), message.partition(), message.offset(), foreign(error))
                self._end = message.offset() + 1
            elif is_end(message):
                self._end = max(self._end, message.offset())
        for feed_id in changed:
            for listener in self._listeners:
                listener(feed_id)
        waiting, self._waiting = self._waiting + asked, []
        for high, reached in waiting:
            if high > self._end:
                self._waiting.append((high, reached))
            elif not reached.done():
                reached.set_result(None)


def _consumer(settings: Settings, machine: Machine, isolation: str) -> Consumer:
    return open_reader(
        settings,
        "jobs-followers",
        machine,
        isolation_level=isolation,
        auto_offset_reset="earliest",
        fetch_wait_max_ms=100,
    )

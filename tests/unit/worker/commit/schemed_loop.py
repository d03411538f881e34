"""A commit loop whose rows need ids of schemas, over a log whose table changes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final

from tests.feeds import activation
from tests.hand_log import HandLog, HandTable, update_of
from tests.logs import Record
from tests.unit.processor.schemed import schemas_for, schemed_options
from tests.unit.worker.commit.hand_loop import InPlace, settle
from tests.unit.worker.hand_ids import HandIds
from tests.unit.worker.hand_limits import PATIENT
from tests.unit.worker.hand_store import HandSink, HandStore, HandValve
from tidegate.changefeed.lifecycle.control import ControlMessage
from tidegate.processor.batch import ControlRecord
from tidegate.processor.config import ProcessorConfig
from tidegate.processor.processor import PartitionProcessor
from tidegate.raftlog.entry import Offset
from tidegate.worker.commit.commit_loop import CommitLimits, CommitLoop, Threads
from tidegate.worker.kafka.fetched import FetchedBatch

OLD: Final = HandTable.of(104, "plain")
NEW: Final = OLD.widened(5)
OPTIONS: Final = schemed_options("s-")
SCHEMED: Final = activation([OLD.descriptor], OPTIONS, feed_id="schemed")
JSON: Final = activation([OLD.descriptor], feed_id="json")
KEY, VALUE = schemas_for(OLD.descriptor, OPTIONS)


def _log() -> tuple[Record, ...]:
    """A row of the old version in the offsets 2 to 5, of the new one in 7 to 10."""
    log = HandLog(partitions=1)
    log.describe(OLD)
    rows = log.open_range(1, OLD.span)
    for second in range(1, 5):
        rows.apply(OLD.put(second, second % 3, f"old {second}"), close=second)
    log.write(update_of(NEW.descriptor))
    for second in range(6, 10):
        rows.apply(NEW.put(second, second % 3, f"new {second}", None), close=second)
    return log.partitions[0]


RECORDS: Final = _log()


class Owner:
    """A commit loop of the partition on what is durable, from its opening to its drain."""

    def __init__(
        self, ids: HandIds, sink: HandSink, store: HandStore, *, inflight: int = 3, present: int = 0
    ) -> None:
        self.ids, self.sink, self.store = ids, sink, store
        rows = ((table, key, value) for (table, key), value in store.state.items())
        self.processor = PartitionProcessor.restore(0, 1, ProcessorConfig(), rows)
        self.next = int(self.processor.next_offset or 0)
        self._controls = int(self.processor.next_control_offset)
        limits = CommitLimits(batch_records=1, inflight_batches=inflight, queued_batches=99, outlets=PATIENT)
        self.commit_loop = CommitLoop(
            self.processor,
            store,
            lambda _: lambda: sink,
            HandValve(),
            Threads(InPlace(), InPlace()),
            limits,
            schema_ids=ids,
            present=present,
        )
        self.commit_loop.start()

    async def die(self) -> None:
        """End as a killed process does: nothing more is sent or committed."""
        for task in self.commit_loop._tasks:
            task.cancel()
        await asyncio.gather(*self.commit_loop._tasks, return_exceptions=True)

    async def tell(self, *messages: ControlMessage) -> None:
        """Messages of the control topic."""
        for message in messages:
            self.commit_loop.control([ControlRecord(Offset(self._controls), message)])
            self._controls += 1
        await settle()

    async def queue_records(self, count: int, batch: int = 1) -> None:
        """The next records of the log, in batches of so many."""
        end = min(self.next + count, len(RECORDS))
        while self.next < end:
            behind = min(self.next + batch, end)
            records = RECORDS[self.next : behind]
            self.commit_loop.queue_batch(FetchedBatch("log", 0, self.next, behind, len(RECORDS), records))
            self.next = behind
        await settle()


async def begun(*, waits: bool = False, inflight: int = 3) -> Owner:
    """A partition with both feeds that has read up to the first row, and waits for its schemas."""
    owner = Owner(HandIds(), HandSink(waits=waits), HandStore(), inflight=inflight)
    await owner.tell(SCHEMED, JSON)
    await owner.queue_records(3)
    return owner


def run(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(scenario())

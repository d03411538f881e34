"""A batch that waits for a registry is given up while rows before it wait for a sink: nothing is passed over.

The processor has taken the batch up. If the feed of that sink were detached then, as is done where the time
for a drain runs out, what is stored with it would say that the batch was done.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Final

import pytest

from tests.feeds import activation
from tests.hand_log import HandLog, HandTable, at, update_of
from tests.unit.processor.schemed import schemas_for, schemed_options
from tests.unit.worker.commit.hand_loop import InPlace, settle
from tests.unit.worker.hand_ids import HandIds
from tests.unit.worker.hand_store import HandSink, HandStore, HandValve
from tidegate.changefeed.definition.options import InitialScan
from tidegate.changefeed.lifecycle.control import Activate
from tidegate.errors import StateError
from tidegate.processor.batch import ControlRecord
from tidegate.processor.config import ProcessorConfig
from tidegate.processor.processor import PartitionProcessor
from tidegate.raftlog.entry import KeyValue, Offset
from tidegate.raftlog.request import Scan
from tidegate.worker.commit.commit_loop import CommitLimits, CommitLoop, Threads
from tidegate.worker.kafka.fetched import FetchedBatch
from tidegate.worker.output.outlet import OutletLimits

_TABLE: Final = HandTable.of(104, "plain")
_NEW: Final = _TABLE.widened(5)
_CONFIG: Final = ProcessorConfig(detachable=True)
_JSON: Final = activation([_TABLE.descriptor], feed_id="json")
_SCHEMED: Final = activation([_TABLE.descriptor], schemed_options("s-"), feed_id="schemed")
_SCANNED: Final = activation(
    [_TABLE.descriptor],
    schemed_options("s-", initial_scan=InitialScan.YES),
    start=at(1),
    feed_id="scanned",
)


class _Owner:
    """A partition whose sink of ``json`` is ``slow``; that of all other feeds acknowledges at once."""

    def __init__(self, spool: Path) -> None:
        self.ids, self.store, self.fast, self.slow = HandIds(), HandStore(), HandSink(), HandSink()
        self.log = HandLog(partitions=1)
        self._offered = self._told = 0
        outlets = OutletLimits(spool, 1 << 40, 1 << 30, stall_s=2.0, drain_s=0.05)
        self.commit_loop = CommitLoop(
            PartitionProcessor(0, 1, _CONFIG),
            self.store,
            lambda feed_id: lambda: self.slow if feed_id == _JSON.feed_id else self.fast,
            HandValve(),
            Threads(InPlace(), InPlace()),
            CommitLimits(batch_records=1, inflight_batches=9, queued_batches=99, outlets=outlets),
            schema_ids=self.ids,
        )
        self.commit_loop.start()

    async def tell(self, feed: Activate) -> None:
        """A feed begins."""
        self.commit_loop.control([ControlRecord(Offset(self._told), feed)])
        self._told += 1
        await self._settle()

    async def read_on(self) -> None:
        """Offer what the log has that was not offered, a record in each batch."""
        records = self.log.partitions[0]
        for offset in range(self._offered, len(records)):
            batch = FetchedBatch("log", 0, offset, offset + 1, len(records), records[offset : offset + 1])
            self.commit_loop.queue_batch(batch)
        self._offered = len(records)
        await self._settle()

    def successor(self) -> PartitionProcessor:
        """Return who opens the partition next; what is stored can be read."""
        rows = ((table, key, value) for (table, key), value in self.store.state.items())
        return PartitionProcessor.restore(0, 1, _CONFIG, rows)

    async def _settle(self) -> None:
        for _ in range(10):
            await settle()


def _run(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(scenario())


def test_a_scan_that_is_given_up_is_asked_for_again(tmp_path: Path) -> None:
    async def scenario() -> None:
        owner = _Owner(tmp_path)
        owner.log.describe(_TABLE)
        rows = owner.log.open_range(1, _TABLE.span)
        rows.apply(_TABLE.put(1, 1, "first"), close=1)
        await owner.tell(_JSON)
        await owner.read_on()
        await owner.tell(_SCANNED)
        rows.apply(close=1.5)
        await owner.read_on()
        owner.slow.waits = True
        rows.apply(_TABLE.put(3, 2, "in flight"))
        await owner.read_on()
        (scan,) = (
            each for result in owner.store.results for each in result.requests if isinstance(each, Scan)
        )
        key, value = _TABLE.pair(1, "first")
        rows.scanned(scan, KeyValue(key, at(1), value))
        await owner.read_on()
        assert owner.commit_loop.waiting, "the first row of the scan needs ids"
        await asyncio.wait_for(owner.commit_loop.drain(), 5)
        assert owner.fast.rows == []
        successor = owner.successor()
        assert [each.feed_id for each in successor.status().with_gaps] == [_SCANNED.feed_id]
        assert [active.feed_id for active in successor.full_checkpoint().feeds] == [_JSON.feed_id]

    _run(scenario)


def test_a_batch_with_a_new_table_version_is_read_again(tmp_path: Path) -> None:
    async def scenario() -> None:
        owner = _Owner(tmp_path)
        await owner.tell(_SCHEMED)
        await owner.tell(_JSON)
        schemas = schemas_for(_TABLE.descriptor, schemed_options("s-"))
        owner.log.describe(_TABLE)
        rows = owner.log.open_range(1, _TABLE.span)
        rows.apply(_TABLE.put(1, 1, "old"), close=1)
        await owner.read_on()
        await owner.ids.give(schemas.key, schemas.value)
        owner.slow.waits = True
        rows.apply(_TABLE.put(2, 2, "in flight"), close=2)
        owner.log.write(update_of(_NEW.descriptor))
        rows.apply(_NEW.put(6, 1, "new", None), close=6)
        await owner.read_on()
        assert owner.commit_loop.waiting, "the first row of the new version needs ids"
        written = len(owner.fast.rows)
        await asyncio.wait_for(owner.commit_loop.drain(), 5)
        given_up = len(owner.log.partitions[0]) - 1
        successor = owner.successor()
        assert successor.next_offset is not None
        assert successor.next_offset <= given_up
        assert len(owner.fast.rows) == written

    _run(scenario)


def test_nothing_is_stepped_after_a_batch_was_given_up(tmp_path: Path) -> None:
    async def scenario() -> None:
        owner = _Owner(tmp_path)
        stepper = owner.commit_loop._stepper
        stepper.give_up()
        with pytest.raises(StateError, match="given up"):
            await stepper.step(lambda _: owner.store.results[0], None)
        await owner.commit_loop.drain()

    _run(scenario)

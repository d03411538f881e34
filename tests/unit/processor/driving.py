"""A processor driven by tests: its results, and the state that an engine would have stored."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

from tests.logs import Record
from tests.unit.processor.stored_ranges import require_rows_of_ranges
from tidegate.changefeed.definition.feed import FeedId
from tidegate.changefeed.encoding.json_decoder import parse_record
from tidegate.changefeed.encoding.record import RowRecord
from tidegate.changefeed.lifecycle.control import Activate, ControlMessage
from tidegate.hlc import Timestamp
from tidegate.processor.batch import (
    SOURCE_HEADER,
    ControlRecord,
    OutputRecord,
    RangeCheckpoint,
    StateChange,
    StateTable,
    StepResult,
)
from tidegate.processor.config import ProcessorConfig
from tidegate.processor.processor import PartitionProcessor
from tidegate.processor.state import state_pb2 as pb
from tidegate.processor.state.digest import RowDigests, row_hash
from tidegate.processor.state.position_hash import DIGESTS_BYTES, POSITION_KEY, hash_of_position
from tidegate.processor.state.state_codec import position_row, read_position
from tidegate.raftlog.entry import Offset, RangeId

StoredState: TypeAlias = dict[tuple[StateTable, bytes], bytes]


def fold(state: StoredState, changes: Sequence[StateChange]) -> StoredState:
    """The stored state after ``changes``."""
    after = dict(state)
    for table, key, value in changes:
        if value is None:
            after.pop((table, key), None)
        else:
            after[table, key] = value
    return after


def vouched(state: StoredState) -> StoredState:
    """The state, its position with digests of these very rows: as one who writes such rows would store it."""
    digests, intents = RowDigests(), 0
    for (table, key), value in state.items():
        if table is StateTable.INTENTS:
            intents += row_hash(table, key, value)
        elif key != POSITION_KEY:
            digests.add_changes([StateChange(table, key, value)])
    sums = digests.digests(intents)
    place = (StateTable.RANGES, POSITION_KEY)
    tail = pb.Position(**{f"{name}_digest": digest for name, digest in sums._asdict().items()})
    stored = state[place][:-DIGESTS_BYTES] + tail.SerializeToString()
    own = pb.Position(own_hash=hash_of_position(stored)).SerializeToString()
    return {**state, place: stored + own}


def without_digests(state: StoredState) -> StoredState:
    """The state as a version stored it that knew of no digests."""
    position = read_position(state[StateTable.RANGES, POSITION_KEY])
    position.digests = None
    return fold(state, [position_row(position)])


class Driven:
    """A processor, the fold of its changes, and all of its results."""

    def __init__(self, processor: PartitionProcessor | None = None, state: StoredState | None = None) -> None:
        self.processor = processor or PartitionProcessor(0, 1)
        self.state: StoredState = dict(state or {})
        self.results: list[StepResult] = []
        self._controls = int(self.processor.next_control_offset)

    @classmethod
    def restored(
        cls,
        state: StoredState,
        partition: int = 0,
        partitions: int = 1,
        config: ProcessorConfig | None = None,
    ) -> Driven:
        """A processor out of stored state."""
        rows = ((table, key, value) for (table, key), value in state.items())
        config = config or ProcessorConfig()
        return cls(PartitionProcessor.restore(partition, partitions, config, rows), state)

    def control(self, *messages: ControlMessage) -> StepResult:
        """Take up messages, each at the next offset of the control topic."""
        records = []
        for message in messages:
            records.append(ControlRecord(Offset(self._controls), message))
            self._controls += 1
        return self.note(self.processor.control(records))

    def step(self, records: Sequence[Record]) -> StepResult:
        """Step a batch."""
        return self.note(self.processor.step(records))

    def run(self, records: Sequence[Record], batch: int = 10_000) -> list[StepResult]:
        """Step all of ``records`` in batches."""
        return [self.step(records[first : first + batch]) for first in range(0, len(records), batch)]

    def read_on(self, log: Sequence[Record]) -> None:
        """Step what was not read yet of the partition's log, and whatever becomes of it."""
        self.run(log[int(self.processor.next_offset or 0) :])
        self.step(())
        while self.processor.ready:
            self.step(())

    def note(self, result: StepResult) -> StepResult:
        """Keep a result, and store what it changed."""
        require_rows_of_ranges(self.processor, result)
        self.state = fold(self.state, result.changes)
        self.results.append(result)
        return result

    @property
    def rows(self) -> list[OutputRecord]:
        """Everything that was emitted, in order."""
        return [record for result in self.results for record in rows_of(result)]

    @property
    def causes(self) -> list[str]:
        """The causes that an operator would have read."""
        return [incident.cause for result in self.results for incident in result.incidents]

    @property
    def checkpoints(self) -> dict[RangeId, RangeCheckpoint]:
        """The last checkpoint of each range."""
        return {
            item.range_id: item
            for result in self.results
            if result.checkpoint is not None
            for item in result.checkpoint.ranges
        }


def active(message: Activate) -> Driven:
    """A fresh processor that runs one feed from the first record on."""
    driven = Driven()
    driven.control(message)
    return driven


def rows_of(result: StepResult, feed: FeedId | None = None) -> Iterator[OutputRecord]:
    """The rows of one result, of one feed or of all."""
    for feed_id, records in result.outputs.items():
        if feed is None or feed_id == feed:
            yield from records


def timestamp_of(record: OutputRecord) -> Timestamp:
    """The MVCC timestamp of a row of a feed with ``updated``."""
    row = parse_record(record.key, record.value)
    assert isinstance(row, RowRecord)
    assert row.updated is not None
    return row.updated


def range_of(record: OutputRecord) -> RangeId:
    """The range that a row came from."""
    return RangeId(int(dict(record.headers)[SOURCE_HEADER].split(b"/")[0]))

"""The reader does what the page of the log contract says of records that come again, and of bytes."""

from __future__ import annotations

import random

import pytest

from tests.feeds import activation
from tests.hand_log import HandLog, at
from tests.logs import Record
from tests.unit.processor.driving import active
from tests.unit.processor.logs import PLAIN
from tests.unit.raftlog.example_log import PARTITIONS, RECORDS, TABLE
from tidegate.changefeed.definition.feed import FeedId
from tidegate.logcheck.breach import BreachPlace
from tidegate.logcheck.log_check import CheckedRecord, LogOptions, check_log
from tidegate.processor.reference import ReferenceEngine
from tidegate.raftlog import raftlog_pb2 as pb
from tidegate.raftlog.decode import decode_entry
from tidegate.raftlog.encode import encode_key
from tidegate.raftlog.entry import Command, Generation, RaftIndex, RangeId, SnapshotReason, Trigger


def test_an_empty_record_is_a_command_without_anything() -> None:
    empty = Command(RangeId(7), Generation(2), RaftIndex(41), (), None)
    bare = pb.LogEntry(range_id=7, generation=2, raft_index=41, command=pb.RaftCommand())
    assert bare.SerializeToString().hex() == "08071002" + "1829" + "2200"
    assert decode_entry(encode_key(RangeId(7)), bare.SerializeToString()) == empty


def _written(partition: int) -> list[Record]:
    """The example's records of a partition."""
    own = (each for each in RECORDS if each.partition == partition)
    return [Record(offset, each.key, each.value, each.time_ms) for offset, each in enumerate(own)]


def _example_again(seed: int) -> list[Record]:
    """Partition 1 of the example by a source that dies again and again: each time it has written some records
    twice, though never a command behind its trigger without what follows."""
    rng = random.Random(seed)
    written = _written(1)
    again: list[Record] = []
    known = 0
    for number, record in enumerate(written):
        again.append(record)
        if not _awaits_snapshot(number) and rng.random() < 0.5:
            known = rng.randint(known, number)
            again += written[known : number + 1]
    return [record._replace(offset=offset) for offset, record in enumerate(again)]


def _awaits_snapshot(number: int) -> bool:
    entry = [each.entry for each in RECORDS if each.partition == 1][number]
    return isinstance(entry, Command) and entry.trigger is not Trigger.NONE


@pytest.mark.parametrize("seed", range(20))
def test_records_of_a_range_that_come_again_in_order_are_nothing(seed: int) -> None:
    """Also those from before a split: commands, Heartbeats, ScanChunks, whole Snapshots."""
    print(f"seed {seed}")
    logs = {
        0: _written(0),
        1: _example_again(seed),
    }
    once, engine = (ReferenceEngine(PARTITIONS, [activation([TABLE.descriptor])]) for _ in range(2))
    for partition, records in logs.items():
        engine.step(partition, records)
    for partition in logs:
        once.step(partition, _written(partition))
    assert engine.incidents == []
    assert engine.high_water(FeedId("feed")) == at(8)
    rows = [{place: [x for x in each if x.key] for place, each in e.output.items()} for e in (once, engine)]
    assert rows[0] == rows[1]
    checked = [
        CheckedRecord(BreachPlace(partition, record.offset), record.key, record.value, record.timestamp)
        for partition, records in logs.items()
        for record in records
    ]
    assert check_log(checked, LogOptions(PARTITIONS)) == []


def test_a_heartbeat_between_a_trigger_and_its_snapshot_is_a_hole_until_the_snapshot() -> None:
    log = HandLog(partitions=1)
    log.describe(PLAIN)
    opened = log.open_range(1, PLAIN.span)
    opened.apply(PLAIN.put(1, 1, "a"), close=1)
    opened.apply(close=2, trigger=Trigger.SPLIT)
    opened.heartbeat(2)
    driven = active(activation([PLAIN.descriptor]))
    driven.run(log.partitions[0])
    assert any("a snapshot must follow a split or merge" in cause for cause in driven.causes)
    seen = len(log.partitions[0])
    opened.generation = 2
    opened.snapshot(close=3, reason=SnapshotReason.SPLIT)
    driven.run(log.partitions[0][seen:])
    assert driven.processor.status().quarantined == ()

"""The worked example of docs/log-contract.md, as entries: the page has the same as bytes."""

from __future__ import annotations

from typing import Final, NamedTuple

from tests.hand_log import FIRST_INDEX, HandTable, at, closed, txn, update_of
from tidegate.hlc import ZERO
from tidegate.raftlog.encode import encode_entry, encode_key, partition_of, range_of
from tidegate.raftlog.entry import (
    BROADCAST,
    NEVER_MUTATED,
    Command,
    CommitIntent,
    Entry,
    Generation,
    Heartbeat,
    KeyValue,
    Parent,
    RaftIndex,
    RangeEnd,
    RangeId,
    ScanChunk,
    Snapshot,
    SnapshotReason,
    Trigger,
    WriteIntent,
    WriteValue,
)
from tidegate.raftlog.request import Push, PushedTxn, RangeRequest, Scan

PARTITIONS: Final = 2
TABLE: Final = HandTable.of(104, "t")


class ExampleRecord(NamedTuple):
    """A record of the example; ``what`` is the page's line about it."""

    partition: int
    time_ms: int
    entry: Entry
    what: str

    @property
    def key(self) -> bytes:
        """Kafka's key."""
        return encode_key(range_of(self.entry))

    @property
    def value(self) -> bytes:
        """Kafka's value."""
        return encode_entry(self.entry)


_LEFT, _RIGHT = RangeId(7), RangeId(8)
_LOW, _HIGH = TABLE.split(2)
_ONE = TABLE.put(1, 1, "a")
_TWO_KEY, _TWO_VALUE = TABLE.pair(2, "b")


def _index(number: int) -> RaftIndex:
    return RaftIndex(FIRST_INDEX + number)


def _snapshot(
    range_id: RangeId, generation: int, index: int, reason: SnapshotReason, **more: object
) -> Snapshot:
    head = Snapshot(
        range_id, Generation(generation), _index(index), TABLE.span, closed(0), ZERO, ZERO, reason=reason
    )
    return head._replace(last_mutation=NEVER_MUTATED, **more)  # type: ignore[arg-type]


_OF_TABLE: Final = {"descriptors": (update_of(TABLE.descriptor),)}
#: (record time in seconds, entry, what the page says of it)
_ENTRIES: Final[tuple[tuple[float, Entry, str], ...]] = (
    (
        0,
        update_of(TABLE.descriptor),
        "the table `t` (id INT PRIMARY KEY, v STRING), its version 1, a broadcast",
    ),
    (
        0.1,
        _snapshot(_LEFT, 1, 0, SnapshotReason.INITIAL, **_OF_TABLE),
        "range 7 begins: all keys of the table, generation 1, index 10",
    ),
    (
        1.1,
        Command(_LEFT, Generation(1), _index(1), (_ONE._replace(prev_value=b""),), None),
        "index 11: a write in one phase, (1, 'a') at second 1; there was no row before",
    ),
    (
        2.1,
        Command(
            _LEFT, Generation(1), _index(2), (WriteIntent(txn(5), TABLE.key(2), at(2), at(2)),), closed(1)
        ),
        "index 12: transaction 5 writes an intent at second 2; second 1 is closed",
    ),
    (
        3.1,
        Command(_LEFT, Generation(1), _index(3), (), None),
        "index 13: the empty record of a command that was rejected",
    ),
    (
        3.5,
        Heartbeat(_LEFT, Generation(1), closed(3), _index(3)),
        "a heartbeat: second 3 is closed as of index 13. The range resolves what is below the intent",
    ),
    (
        4.1,
        Command(
            _LEFT,
            Generation(1),
            _index(4),
            (CommitIntent(txn(5), _TWO_KEY, at(2), _TWO_VALUE, b""),),
            closed(4),
        ),
        "index 14: the intent becomes the row (2, 'b') at second 2",
    ),
    (
        4.2,
        ScanChunk(
            _LEFT,
            Generation(1),
            _index(4),
            2,
            TABLE.span,
            None,
            at(3),
            all_versions=False,
            rows=(KeyValue(_ONE.key, at(1), _ONE.value or b""), KeyValue(_TWO_KEY, at(2), _TWO_VALUE)),
            last=True,
        ),
        "the answer to scan request 2: the newest of each key as of second 3, in one chunk",
    ),
    (
        5.1,
        Command(_LEFT, Generation(1), _index(5), (), closed(5), Trigger.SPLIT),
        "index 15: the trigger of a split at the key of (2)",
    ),
    (
        5.1,
        _snapshot(
            _LEFT,
            2,
            5,
            SnapshotReason.SPLIT,
            span=_LOW,
            closed=closed(5),
            high=at(2),
            parents=(Parent(_LEFT, Generation(1), _index(5)),),
            **_OF_TABLE,
        ),
        "at once: range 7 goes on in generation 2 with the keys below",
    ),
    (
        5.1,
        _snapshot(
            _RIGHT,
            2,
            0,
            SnapshotReason.SPLIT,
            span=_HIGH,
            closed=closed(5),
            high=at(2),
            parents=(Parent(_LEFT, Generation(1), _index(5)),),
            **_OF_TABLE,
        ),
        "range 8 begins with the keys from there on, in the other partition",
    ),
    (
        6.1,
        Command(_RIGHT, Generation(2), _index(1), (WriteValue(_TWO_KEY, at(6), b"", _TWO_VALUE),), None),
        "index 11 of range 8: the row (2) is deleted at second 6",
    ),
    (
        7.1,
        RangeEnd(_RIGHT, Generation(2), _index(1)),
        "range 8 is merged away: its last record",
    ),
    (
        7.1,
        Command(_LEFT, Generation(2), _index(6), (), closed(6), Trigger.MERGE),
        "index 16 of range 7: the trigger of the merge",
    ),
    (
        7.1,
        _snapshot(
            _LEFT,
            3,
            6,
            SnapshotReason.MERGE,
            closed=closed(6),
            high=at(6),
            parents=(Parent(_LEFT, Generation(2), _index(6)), Parent(_RIGHT, Generation(2), _index(1))),
            **_OF_TABLE,
        ),
        "at once: range 7 has all keys again, in generation 3",
    ),
    (
        9.0,
        Heartbeat(_LEFT, Generation(3), closed(8), _index(6)),
        "a heartbeat closes second 8",
    ),
)


def _records() -> list[ExampleRecord]:
    records = []
    for seconds, entry, what in _ENTRIES:
        range_id = range_of(entry)
        places = range(PARTITIONS) if range_id == BROADCAST else [partition_of(range_id, PARTITIONS)]
        records += [ExampleRecord(place, at(seconds).wall_ms, entry, what) for place in places]
    return records


RECORDS: Final = tuple(_records())
REQUESTS: Final[tuple[tuple[RangeRequest, str], ...]] = (
    (
        Push(_LEFT, (PushedTxn(txn(5), TABLE.key(2)),), at(3)),
        "push transaction 5 in range 7 to second 3",
    ),
    (
        Scan(_LEFT, 2, TABLE.span, None, at(3), all_versions=False, with_prev=False),
        "the newest version of each key of range 7 as of second 3",
    ),
)

"""Everything that outlives a process inside of Kafka and RocksDB, byte for byte.

The golden file has one line a record: where it is stored, key and value, in hex, separated by tabs. A change
of it is a change of the state format: it needs a new version, a reader of the old one, and a line in the
changelog. What an older version wrote keeps a file of its own.
``python -m tests.unit.processor.test_stored_bytes`` prints what the code writes now.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from tests.hand_log import at, txn
from tests.unit.processor.driving import Driven, StoredState
from tests.unit.processor.logs import PLAIN
from tests.unit.processor.stored_states import FEED, GOLDEN, LOG, amid_a_snapshot, healing, held, stepped
from tidegate.changefeed.definition.feed import FIRST_EPOCH, FeedId, TableName
from tidegate.changefeed.lifecycle.control import (
    Ack,
    Active,
    ControlMessage,
    Failed,
    KnownTable,
    Register,
    Registered,
    Remove,
    Removed,
    ack_key,
    control_key,
    read_ack,
    read_control,
)
from tidegate.processor.batch import StateTable
from tidegate.processor.checkpoint import encode_checkpoint
from tidegate.processor.state.state_codec import read_range
from tidegate.raftlog.encode import encode_key
from tidegate.raftlog.entry import RangeId
from tidegate.raftlog.request import Push, PushedTxn, encode_request

#: The same records while a definition had fewer options.
GOLDEN_V1: Final = GOLDEN.with_name("stored_v1.tsv")
#: The same records before feeds could start in the past or with a scan.
GOLDEN_V2: Final = GOLDEN.with_name("stored_v2.tsv")
#: The same records before feeds could have another engine.
GOLDEN_V3: Final = GOLDEN.with_name("stored_v3.tsv")
#: The same records before partitions stored what their logs had shown of the time, and ranges which history
#: mutations are accounted for; and while what a range tells others stood in its own row.
GOLDEN_V4: Final = GOLDEN.with_name("stored_v4.tsv")
#: The same records before a definition said what becomes of rows that are too large.
GOLDEN_V5: Final = GOLDEN.with_name("stored_v5.tsv")
#: The same records before a definition said whether a feed takes topics that stand there.
GOLDEN_V6: Final = GOLDEN.with_name("stored_v6.tsv")
_OLDER: Final = pytest.mark.parametrize(
    "file",
    [GOLDEN_V1, GOLDEN_V2, GOLDEN_V3, GOLDEN_V4, GOLDEN_V5, GOLDEN_V6],
    ids=["version 1", "version 2", "version 3", "version 4", "version 5", "version 6"],
)
_ID: Final = FeedId(FEED.feed_id)


class Line(NamedTuple):
    """A record and the place that it is stored in."""

    place: str
    key: bytes
    value: bytes

    def __str__(self) -> str:
        return f"{self.place}\t{self.key.hex()}\t{self.value.hex()}"


def _state(place: str, driven: Driven) -> Iterator[Line]:
    rows = (Line(f"{place}/{table.value}", key, value) for (table, key), value in driven.state.items())
    yield from sorted(rows)


def _messages() -> Iterator[Line]:
    messages: list[ControlMessage] = [Register(FEED.definition), FEED, Remove(_ID, FIRST_EPOCH)]
    for message in messages:
        yield Line("control", control_key(message.feed_id), message.to_bytes())
    table = TableName.of(PLAIN.descriptor)
    acks: list[Ack] = [
        Registered(_ID, FIRST_EPOCH, 3, 17, at(9), (KnownTable(table, PLAIN.descriptor.id),)),
        Active(_ID, FIRST_EPOCH, 3),
        Failed(_ID, FIRST_EPOCH, 3, "a reason"),
        Removed(_ID, FIRST_EPOCH, 3),
    ]
    for ack in acks:
        yield Line("control-acks", ack_key(ack), ack.to_bytes())


def stored() -> Iterator[Line]:
    """Yield what the code writes now."""
    amid, end = amid_a_snapshot(), stepped(len(LOG))
    yield from _state("held", held())
    yield from _state("amid", amid)
    yield from _state("end", end)
    yield from _state("healing", healing())
    yield Line("checkpoints", b"", encode_checkpoint(end.processor.full_checkpoint()))
    yield Line("requests", *encode_request(Push(RangeId(1), (PushedTxn(txn(2), b"anchor"),), at(5))))
    yield from _messages()


def _lines(file: Path) -> Iterator[Line]:
    for line in file.read_text().splitlines():
        place, key, value = line.split("\t")
        yield Line(place, bytes.fromhex(key), bytes.fromhex(value))


def _golden_state(place: str, file: Path = GOLDEN) -> StoredState:
    return {
        (StateTable(line.place.removeprefix(f"{place}/")), line.key): line.value
        for line in _lines(file)
        if line.place.startswith(f"{place}/")
    }


def test_what_is_stored_is_as_it_was() -> None:
    assert [str(line) for line in stored()] == GOLDEN.read_text().splitlines()


def test_a_state_that_was_stored_is_taken_up_where_it_was() -> None:
    run, restored = amid_a_snapshot(), Driven.restored(_golden_state("amid"))
    assert restored.processor.status() == run.processor.status()
    rest = LOG[int(run.processor.next_offset or 0) :]
    assert [result.outputs for result in restored.run(rest)] == [result.outputs for result in run.run(rest)]
    assert restored.state == run.state


def test_a_range_that_was_stored_while_it_heals_knows_what_has_not_come() -> None:
    key = encode_key(RangeId(1))
    scan = read_range(key, _golden_state("healing")[StateTable.RANGES, key]).state.scan
    assert scan is not None
    low, high = PLAIN.split(50)
    assert (scan.span, scan.upto) == (PLAIN.split(100)[0], at(10))
    assert scan.parts == [(high._replace(end=PLAIN.key(100)), at(6)), (low, at(8))]


@_OLDER
def test_a_state_of_an_older_version_is_taken_up_where_it_was(file: Path) -> None:
    """Rows are not written anew for their form alone, so some stay as they are stored."""
    run, restored = amid_a_snapshot(), Driven.restored(_golden_state("amid", file))
    assert restored.processor.status() == run.processor.status()
    rest = LOG[int(run.processor.next_offset or 0) :]
    assert [result.outputs for result in restored.run(rest)] == [result.outputs for result in run.run(rest)]
    assert Driven.restored(restored.state).processor.status() == run.processor.status()


@_OLDER
def test_messages_of_an_older_version_say_the_same(file: Path) -> None:
    readers: dict[str, Callable[[bytes], object]] = {"control": read_control, "control-acks": read_ack}
    old = [line for line in _lines(file) if line.place in readers]
    assert [readers[line.place](line.value) for line in old] == [
        readers[line.place](line.value) for line in _messages()
    ]


if __name__ == "__main__":
    print(*stored(), sep="\n")

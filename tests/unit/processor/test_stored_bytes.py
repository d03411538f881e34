"""Everything that outlives a process inside of Kafka and RocksDB, byte for byte.

The golden file has one line a record: where it is stored, key and value, in hex, separated by tabs. A change
of it is a change of the state format: it needs a new version, a reader of the old one, and a line in the
changelog. What an older version wrote keeps a file of its own.
``python -m tests.unit.processor.test_stored_bytes`` prints what the code writes now.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from tests.feeds import activation
from tests.hand_log import HandLog, at, txn
from tests.unit.processor.driving import Driven, StoredState, active
from tests.unit.processor.logs import OTHER, PLAIN, eventful_log
from tidegate.changefeed.definition.feed import FIRST_EPOCH, FeedId, TableName
from tidegate.changefeed.lifecycle.control import (
    Ack,
    Activate,
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
from tidegate.processor.state.state_codec import is_chunk_key, read_range
from tidegate.raftlog.encode import encode_key
from tidegate.raftlog.entry import RangeId
from tidegate.raftlog.request import Push, PushedTxn, Scan, encode_request
from tidegate.rows.table_key import index_span

GOLDEN: Final = Path(__file__).parent / "golden" / "stored.tsv"
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


def _with_primary_keys(feed: Activate) -> Activate:
    targets = (replace(target, spans=(index_span(target.table_id, 1),)) for target in feed.targets)
    return replace(feed, targets=tuple(targets))


#: Its targets have the keys that were stored with it: those of the primary indexes.
_FEED: Final = _with_primary_keys(activation([PLAIN.descriptor, OTHER.descriptor]))
_ID: Final = FeedId(_FEED.feed_id)
_LOG: Final = eventful_log()


class Line(NamedTuple):
    """A record and the place that it is stored in."""

    place: str
    key: bytes
    value: bytes

    def __str__(self) -> str:
        return f"{self.place}\t{self.key.hex()}\t{self.value.hex()}"


def _held() -> Driven:
    """A partition that has read nothing, with a feed that runs and one that waits for its start."""
    driven = active(_FEED)
    driven.control(Register(replace(_FEED.definition, id=FeedId("waits"))))
    return driven


def _stepped(records: int) -> Driven:
    driven = active(_FEED)
    driven.run(_LOG[:records])
    return driven


def _amid_a_snapshot() -> Driven:
    """The last moment at which a snapshot is incomplete."""
    cuts = (_stepped(count) for count in range(len(_LOG), 0, -1))
    return next(cut for cut in cuts if any(is_chunk_key(key) for _, key in cut.state))


def _healing() -> Driven:
    """A range that has split while it was scanned: keys that no scan came to, and keys that one did."""
    log = HandLog(partitions=1)
    log.describe(PLAIN)
    broken = log.open_range(1, PLAIN.span)
    broken.apply(PLAIN.put(5, 1, "before"), close=6)
    broken.index += 1  # index lost: a hole
    broken.apply(PLAIN.put(8, 1, "lost"), close=6)
    broken.snapshot(close=9, high=8)
    driven = active(_FEED)
    driven.run(log.partitions[0])
    (scan,) = (request for request in driven.results[-1].requests if isinstance(request, Scan))
    broken.scanned(scan, span=PLAIN.split(50)[0], last=False)
    broken.apply(PLAIN.put(10, 1, "after"), close=9)
    broken.split(PLAIN.key(100), 2, close=11)
    driven.run(log.partitions[0][int(driven.processor.next_offset or 0) :])
    return driven


def states() -> dict[str, StoredState]:
    """The states of the golden file, by place."""
    return {
        "held": _held().state,
        "amid": _amid_a_snapshot().state,
        "end": _stepped(len(_LOG)).state,
        "healing": _healing().state,
    }


def _state(place: str, driven: Driven) -> Iterator[Line]:
    rows = (Line(f"{place}/{table.value}", key, value) for (table, key), value in driven.state.items())
    yield from sorted(rows)


def _messages() -> Iterator[Line]:
    messages: list[ControlMessage] = [Register(_FEED.definition), _FEED, Remove(_ID, FIRST_EPOCH)]
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
    """What the code writes now."""
    amid, end = _amid_a_snapshot(), _stepped(len(_LOG))
    yield from _state("held", _held())
    yield from _state("amid", amid)
    yield from _state("end", end)
    yield from _state("healing", _healing())
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
    run, restored = _amid_a_snapshot(), Driven.restored(_golden_state("amid"))
    assert restored.processor.status() == run.processor.status()
    rest = _LOG[int(run.processor.next_offset or 0) :]
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
    run, restored = _amid_a_snapshot(), Driven.restored(_golden_state("amid", file))
    assert restored.processor.status() == run.processor.status()
    rest = _LOG[int(run.processor.next_offset or 0) :]
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

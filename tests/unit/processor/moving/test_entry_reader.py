"""Records of the log as entries: those that cannot be read, are refused, or come again."""

from __future__ import annotations

from typing import Final

import pytest

from tests.hand_log import at
from tests.unit.processor.catchup.partition_parts import HERE
from tests.unit.processor.logs import PLAIN
from tests.unit.processor.moving.entries_parts import beat, command
from tidegate.errors import MalformedEntry
from tidegate.processor.containment import Input, InputPlace
from tidegate.processor.moving import entry_reader
from tidegate.processor.moving.entry_reader import EntryReader
from tidegate.processor.refused import KEPT_OF_A_STEP
from tidegate.raftlog.encode import encode_entry, encode_key
from tidegate.raftlog.entry import Entry, Generation, RaftIndex, ScanChunk
from tidegate.ranges.backlog import RawEntry

_CHUNK: Final = ScanChunk(
    HERE,
    Generation(1),
    RaftIndex(9),
    4,
    PLAIN.span,
    None,
    at(9),
    all_versions=True,
    rows=(),
    last=True,
)


def _record(offset: int, entry: Entry) -> RawEntry:
    return RawEntry(offset, encode_key(HERE), encode_entry(entry), 0)


def _refuse(reader: EntryReader, *offsets: int) -> None:
    reader.refused = {InputPlace(Input.LOG, offset): f"refused {offset}" for offset in offsets}


def _shown(entry: Entry | MalformedEntry) -> object:
    return str(entry) if isinstance(entry, MalformedEntry) else entry


def test_a_chunk_that_came_alone_is_the_same_when_it_is_given_again_and_only_then() -> None:
    reader = EntryReader()
    chunk, other = _record(1, _CHUNK), _record(2, _CHUNK)
    assert not reader.is_amid(chunk)
    (first,) = reader.read([chunk])
    assert (reader.is_amid(chunk), reader.is_amid(other), reader.is_amid(_record(1, _CHUNK))) == (
        True,
        False,
        False,
    )
    assert reader.read([chunk])[0] is first, "it is not decoded again"
    assert reader.read([chunk, other])[0] is not first
    assert not reader.is_amid(chunk), "it came with another"
    assert reader.read([]) == []


@pytest.mark.parametrize("entry", [beat(6), command(11)])
def test_other_entries_are_not_kept(entry: Entry) -> None:
    reader = EntryReader()
    reader.read([_record(1, _CHUNK)])
    record = _record(2, entry)
    assert reader.read([record]) == [entry]
    assert not reader.is_amid(record)
    assert not reader.is_amid(_record(1, _CHUNK))


def test_a_record_that_was_refused_is_malformed_wherever_it_is_read() -> None:
    reader = EntryReader()
    chunk, record, other = _record(1, _CHUNK), _record(2, beat(6)), _record(3, beat(7))
    _refuse(reader, 2)
    assert list(map(_shown, reader.read([chunk, record, other]))) == [_CHUNK, "refused 2", beat(7)]
    with pytest.raises(MalformedEntry, match="refused 2"):
        reader.read_again(record)
    assert reader.read_again(other) == beat(7)
    reader.read([chunk])
    _refuse(reader, 1)
    assert list(map(_shown, reader.read([chunk]))) == ["refused 1"]


def test_records_whose_reading_nobody_foresaw_are_kept_up_to_a_number(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def breaks(*_: object) -> Entry:
        raise ArithmeticError("nobody foresaw it")

    for name in ("decode_batch", "decode_entry"):
        monkeypatch.setattr(entry_reader, name, breaks)
    reader = EntryReader()
    records = [_record(offset, beat(6)) for offset in range(KEPT_OF_A_STEP + 2)]
    entries = reader.read(records)
    assert all(isinstance(entry, MalformedEntry) for entry in entries)
    assert len(reader.take_broken()) == KEPT_OF_A_STEP
    assert reader.take_broken() == []

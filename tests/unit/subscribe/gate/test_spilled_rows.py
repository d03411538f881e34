"""Rows that wait outside of memory: their bytes, and how much of them is in memory at a time."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.subscribe.gate.memory_spill import MemorySpill
from tests.unit.subscribe.gate.records import ONE, OTHER, marker, row, shown
from tidegate.changefeed.definition.options import Envelope
from tidegate.changefeed.encoding.json_decoder import JsonDecoder
from tidegate.errors import SpillLost
from tidegate.hlc import Timestamp
from tidegate.subscribe.gate.feed_record import FeedPartition, FeedRecord, RecordColumns
from tidegate.subscribe.gate.row_chunk import RowChunk, int_column, memory_of
from tidegate.subscribe.gate.row_gate import RowGate
from tidegate.subscribe.gate.spilled_rows import BLOCK_BYTES, Spill, move_out, packed, take_back, unpacked
from tidegate.subscribe.updates.frontier import frontier_after

_VALUE_BYTES = 10_000
_numbers = st.integers(0, 2**63 - 1)
_rows = st.lists(
    st.tuples(_numbers, _numbers, st.integers(0, 2**31 - 1), st.binary(), st.none() | st.binary()),
    min_size=1,
    max_size=8,
)


def chunk_of(rows: list[tuple[int, int, int, bytes, bytes | None]]) -> RowChunk:
    """Rows with offset, wall, logical part, key and value."""
    offsets, walls, logicals, keys, values = map(list, zip(*rows, strict=True))
    return RowChunk(
        int_column(offsets),
        int_column(walls),
        int_column(logicals),
        keys,
        values,
        [None] * len(rows),
        memory_of(keys, values, 0),
    )


def content(chunk: RowChunk) -> list[tuple[int, int, int, bytes, bytes | None]]:
    """The rows of a chunk, as ``chunk_of`` takes them."""
    return list(
        zip(
            chunk.offsets.tolist(),
            chunk.walls.tolist(),
            chunk.logicals.tolist(),
            chunk.keys,
            chunk.values,
            strict=True,
        )
    )


def large(first: int, count: int) -> list[tuple[int, int, int, bytes, bytes | None]]:
    """Rows of ``_VALUE_BYTES`` each, at the timestamps of their offsets."""
    return [(at, at, 0, b"[%d]" % at, bytes(_VALUE_BYTES)) for at in range(first, first + count)]


@given(st.lists(_rows, min_size=1, max_size=3))
def test_a_block_has_every_row_of_its_chunks(
    chunks: list[list[tuple[int, int, int, bytes, bytes | None]]],
) -> None:
    found = unpacked(packed([chunk_of(rows) for rows in chunks]))
    assert content(found) == [row for rows in chunks for row in rows]
    assert found.records == [None] * found.rows
    assert found.offsets.dtype == found.walls.dtype == np.int64


def test_the_bytes_of_a_block() -> None:
    block = packed([chunk_of([(7, 5, 1, b"k", b"v"), (9, 6, 0, b"", None)])])
    assert block == (
        b"\2\0\0\0"
        + b"".join(number.to_bytes(8, "little") for number in (7, 9, 5, 6, 1, 0))
        + b"\1\0\0\0\0\0\0\0"
        + b"\1\0\0\0\xff\xff\xff\xff"
        + b"kv"
    )


def test_blocks_are_small_whatever_the_chunks_are() -> None:
    store = MemorySpill()
    rows = large(0, 1_000)
    one, many = [chunk_of(rows)], [chunk_of([row]) for row in rows]
    for chunks in (one, many):
        blocks = list(move_out(chunks, store))
        assert all(block.memory_bytes <= BLOCK_BYTES for block in blocks)
        assert len(blocks) < 10
        assert [block.lowest for block in blocks] == [Timestamp(block.first_offset) for block in blocks]
        assert [row for block in blocks for row in content(take_back(block, store))] == rows
    assert not store.blocks


def full_gate(store: MemorySpill, budget_bytes: int, rows: int) -> RowGate:
    """A gate whose first partition has read so many large rows, and whose second one none."""
    gate = RowGate({"t": JsonDecoder(Envelope.WRAPPED)}, (ONE, OTHER), spill=Spill(store, budget_bytes, 0))
    padding = "x" * _VALUE_BYTES
    for at in range(rows):
        value = f'{{"after": {{"id": {at}, "pad": "{padding}"}}, "updated": "{at + 1}.0000000000"}}'.encode()
        gate.add_record(ONE, FeedRecord(at, b"[%d]" % at, value))
    return gate


@pytest.mark.long
def test_what_waits_beyond_the_budget_is_moved_out_once_and_comes_back_once_in_steps() -> None:
    store, budget, rows = MemorySpill(), 4 * BLOCK_BYTES, 5_000
    gate = full_gate(store, budget, rows)
    assert gate.waiting_rows == rows
    assert rows * _VALUE_BYTES - budget < gate.spilled_rows * _VALUE_BYTES < rows * _VALUE_BYTES
    assert gate.offsets()[ONE] == 0
    for place, offset in ((ONE, rows), (OTHER, 0)):
        gate.add_record(place, marker(offset, rows))
    puts, frontiers, seen = store.puts, [], []
    while (opening := gate.open()) is not None:
        assert len(opening.rows) * _VALUE_BYTES < 2 * budget + 2 * BLOCK_BYTES
        frontiers.append(opening.frontier)
        seen += shown(opening) or []
        assert gate.offsets()[ONE] == (len(seen) if len(seen) < rows else rows + 1)
    assert seen == [(at + 1, b"[%d]" % at) for at in range(rows)]
    assert frontiers == sorted(frontiers)
    assert len(frontiers) > 3
    assert (store.puts, store.blocks, gate.waiting_rows) == (puts, {}, 0)


def test_a_resume_reads_the_first_row_again_that_waits_also_when_it_was_moved_out_twice() -> None:
    gate = RowGate({"t": JsonDecoder(Envelope.WRAPPED)}, (ONE, OTHER), spill=Spill(MemorySpill(), 500))

    def add_rows(first: int, *times: int) -> None:
        rows = [row(first + at, first + at, time) for at, time in enumerate(times)]
        gate.add_records(ONE, RecordColumns.of(rows))

    def open_at(offset: int, wall: int) -> list[tuple[int, bytes]] | None:
        gate.add_record(ONE, marker(offset, wall))
        gate.add_record(OTHER, marker(offset, wall))
        return shown(gate.open())

    add_rows(0, 20, 5, 6)  # moved out
    add_rows(3, 3, 20)
    assert open_at(5, 3) == [(3, b"[3]")]
    assert open_at(6, 5) == [(5, b"[1]")]  # rows 0 and 2 are back in memory, behind row 4
    add_rows(7, 20)  # all of them are moved out in one block, which is not in the order of their offsets
    assert open_at(8, 6) == [(6, b"[2]")]
    assert gate.offsets()[ONE] == 0


def test_rows_of_one_timestamp_come_together_however_many() -> None:
    store = MemorySpill()
    gate = RowGate({"t": JsonDecoder(Envelope.WRAPPED)}, (ONE,), spill=Spill(store, 1_000))
    for at in range(50):
        gate.add_record(ONE, row(at, at, 5))
    gate.add_record(ONE, marker(50, 9))
    assert gate.spilled_rows > 40
    opening = gate.open()
    assert opening is not None
    assert len(opening.rows) == 50
    assert gate.open() is None


def test_a_row_that_was_decoded_waits_as_its_bytes() -> None:
    store = MemorySpill()
    gate = RowGate({"t": JsonDecoder(Envelope.WRAPPED)}, (ONE,), spill=Spill(store, 0))
    value = b'{"after": {"id": 1}, "updated": "5.0000000000" }'  # not the usual end, so it is decoded at once
    gate.add_record(ONE, FeedRecord(0, b"[1]", value))
    gate.add_record(ONE, marker(1, 9))
    assert len(store.blocks) == 1
    opening = gate.open()
    assert opening is not None
    assert [version.record.row for version in opening.versions] == [{"id": 1}]


def test_rows_that_wait_in_memory_come_in_steps_of_a_part_of_the_budget_too() -> None:
    budget, rows = 64 * 11 * _VALUE_BYTES, 50  # these are decoded when they come: eleven times their bytes
    store = MemorySpill()
    gate = full_gate(store, budget, rows)
    for place, offset in ((ONE, rows), (OTHER, 0)):
        gate.add_record(place, marker(offset, rows))
    assert store.puts == 0
    frontiers, seen = [], []
    while (opening := gate.open()) is not None:
        assert len(opening.rows) * 11 * _VALUE_BYTES <= budget // 8
        frontiers.append(opening.frontier)
        seen += shown(opening) or []
        assert gate.offsets()[ONE] == (len(seen) if len(seen) < rows else rows + 1)  # a resume has the rest
    assert seen == [(at + 1, b"[%d]" % at) for at in range(rows)]
    assert frontiers == sorted(set(frontiers))
    assert len(frontiers) >= rows // 8
    assert frontiers[-1] == frontier_after(Timestamp(rows))


def test_a_gate_that_keeps_nothing_in_memory_does_not_open_for_each_row() -> None:
    gate = RowGate({"t": JsonDecoder(Envelope.WRAPPED)}, (ONE,), spill=Spill(MemorySpill(), 0))
    for at in range(50):
        gate.add_record(ONE, row(at, at, at + 1))
    gate.add_record(ONE, marker(50, 50))
    opening = gate.open()
    assert opening is not None
    assert len(opening.rows) == 50


@given(
    st.lists(st.tuples(st.integers(1, 6), st.integers(0, 2)), min_size=1, max_size=30),
    st.integers(1, 20_000),
)
def test_whatever_the_budget_the_rows_are_the_same_and_no_timestamp_is_parted(
    times: list[tuple[int, int]], budget: int
) -> None:
    """Timestamps that differ in their logical parts alone, too."""
    found = []
    for spill in (None, Spill(MemorySpill(), budget, 0)):
        gate = RowGate({"t": JsonDecoder(Envelope.WRAPPED)}, (ONE, OTHER), spill=spill)
        for at, (wall, logical) in enumerate(times):
            value = f'{{"after": {{"id": {at}}}, "updated": "{wall}.{logical:010}"}}'.encode()
            gate.add_record((ONE, OTHER)[at % 2], FeedRecord(at, b"[%d]" % at, value))
        for place in (ONE, OTHER):
            gate.add_record(place, marker(len(times), 10))
        openings = []
        while (opening := gate.open()) is not None:
            openings.append((opening.frontier, [(each.updated, each.key) for each in opening.versions]))
        below = Timestamp(0)
        for frontier, rows in openings:
            assert all(below <= updated < frontier for updated, _ in rows)
            below = frontier
        found.append([row for _, rows in openings for row in rows])
    assert found[0] == found[1]


class _Lost(MemorySpill):
    def pop(self, ticket: int) -> bytes:
        raise SpillLost("lost")


def test_rows_that_do_not_come_back_end_the_gate_for_good() -> None:
    gate = RowGate({"t": JsonDecoder(Envelope.WRAPPED)}, (ONE,), spill=Spill(_Lost(), 0))
    gate.add_record(ONE, row(0, 1, 5))
    gate.add_record(ONE, marker(1, 9))
    for _ in range(2):
        with pytest.raises(SpillLost):
            gate.open()
    with pytest.raises(SpillLost):
        gate.add_record(ONE, marker(2, 10))


def test_partitions_share_one_budget() -> None:
    store = MemorySpill()
    places = [FeedPartition("t", number) for number in range(8)]
    gate = RowGate({"t": JsonDecoder(Envelope.WRAPPED)}, places, spill=Spill(store, 20_000))
    for number, place in enumerate(places):
        records = [row(at, 100 * number + at, at + 1) for at in range(10 * number + 1)]
        gate.add_records(place, RecordColumns.of(records))
    assert 0 < gate.spilled_rows < gate.waiting_rows
    for number, place in enumerate(places):
        gate.add_record(place, marker(10 * number + 1, 100))
    found = []
    while (opening := gate.open()) is not None:
        found += shown(opening) or []
    assert len(found) == sum(10 * number + 1 for number in range(8))
    assert [wall for wall, _ in found] == sorted(wall for wall, _ in found)


def test_a_block_has_no_rows_above_the_next_one_whatever_order_they_came_in() -> None:
    """So what is taken back together is as little as when they come in the order of their times."""
    rows = large(0, 2_000)
    Random(1).shuffle(rows)
    store = MemorySpill()
    blocks = list(move_out([chunk_of(rows[:700]), chunk_of(rows[700:])], store))
    assert len(blocks) > 5
    back = [take_back(block, store) for block in blocks]
    assert sorted(row for chunk in back for row in content(chunk)) == sorted(rows)
    for block, chunk, later in zip(blocks, back, back[1:], strict=False):
        assert block.memory_bytes <= BLOCK_BYTES
        assert block.first_offset == chunk.offsets.min()
        assert chunk.walls.max() < later.walls.min()

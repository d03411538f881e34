"""Rows of a moment count once its table has let go of them; where they have no room, they are let go."""

from __future__ import annotations

import sys
from weakref import ref

import pytest

from tests.unit.subscribe.consumer_run import plan_of
from tidegate.errors import LimitExceeded
from tidegate.hlc import Timestamp
from tidegate.serve.kept_memory import KeptMemory
from tidegate.serve.shared.snapshot_chunks import SnapshotChunks, SnapshotSizes
from tidegate.serve.shared.table_moment import held_rows
from tidegate.serve.shared.table_reader import TableSnapshot
from tidegate.serve.shared.table_rows import MemoryLimits, MemoryTableRows
from tidegate.subscribe.statement_rows import StatementRows
from tidegate.subscribe.updates.frontier import Frontier

ROWS = 25_000
#: About what the rows take, at least.
ROWS_BYTES = ROWS * 150


class Note(str):
    """A text that tells when it is gone."""


def rewritten(table: MemoryTableRows, wall: int) -> list[ref[Note]]:
    """Replace all rows; return their notes."""
    notes = [Note("a" * 100) for _ in range(ROWS)]
    table.replace_all([(b"%d" % key, (key, wall, note)) for key, note in enumerate(notes)])
    return [ref(note) for note in notes]


def table_of_rows() -> MemoryTableRows:
    table = MemoryTableRows("accounts", MemoryLimits(sys.maxsize, sys.maxsize))
    rewritten(table, 1)
    return table


def chunks_of(table: MemoryTableRows, memory: KeptMemory) -> SnapshotChunks:
    snapshot = TableSnapshot(*table.frozen(), Frontier(Timestamp(2)), {})
    return SnapshotChunks(
        snapshot, StatementRows(plan_of("SUBSCRIBE accounts"), "feed"), SnapshotSizes, memory
    )


def walls_of(chunks: SnapshotChunks) -> list[object]:
    """Take all chunks that are left; return the balances of their rows."""
    walls: list[object] = []
    while (batch := chunks.next()) is not None:
        walls += [row[3] for row in batch.rows]
    return walls


def test_rows_that_the_table_has_too_count_for_nothing() -> None:
    memory, table = KeptMemory(1 << 30), table_of_rows()
    chunks = [chunks_of(table, memory) for _ in range(20)]
    assert chunks[0].next() is not None
    assert memory.taken == 0


def test_rows_that_the_table_has_replaced_count_until_they_are_taken() -> None:
    memory, table = KeptMemory(1 << 30), table_of_rows()
    first, second = chunks_of(table, memory), chunks_of(table, memory)
    rewritten(table, 2)
    once = memory.taken
    assert ROWS_BYTES < once < 3 * ROWS_BYTES, "two subscribers of one moment keep the same rows"
    assert chunks_of(table, memory).next() is not None
    assert walls_of(first) == [1] * ROWS
    assert memory.taken == once, "the other one needs them"
    second.next()
    second.next()
    assert 0 < memory.taken < once
    assert walls_of(second) == [1] * (ROWS - 20_000)
    second.close()
    assert memory.taken == 0


def test_rows_that_have_no_room_are_let_go_though_their_client_takes_nothing() -> None:
    memory, table = KeptMemory(ROWS_BYTES // 2), table_of_rows()
    notes = rewritten(table, 2)
    slow = chunks_of(table, memory)
    batch = slow.next()
    assert batch is not None
    del batch
    assert all(note() is not None for note in notes)
    rewritten(table, 3)
    assert [note for note in notes if note() is not None] == []
    assert memory.taken == 0
    with pytest.raises(LimitExceeded, match="snapshots and batches that clients have not taken yet"):
        slow.next()
    assert slow.next() is None, "no rows are left out in silence"
    assert walls_of(chunks_of(table, memory)) == [3] * ROWS


def test_rows_that_are_iterated_over_while_they_are_let_go_end_by_an_error() -> None:
    memory, table = KeptMemory(ROWS_BYTES // 2), table_of_rows()
    chunks_of_another, rows = chunks_of(table, memory), iter(table.frozen().rows)
    assert next(rows)[1] == 1
    rewritten(table, 2)
    with pytest.raises(LimitExceeded):
        list(rows)
    chunks_of_another.close()


def test_rows_of_no_table_count_at_once() -> None:
    memory = KeptMemory(1 << 30)
    rows = held_rows([(key, "a" * 100) for key in range(ROWS)])
    rows.moment.count_in(memory)
    assert memory.taken > ROWS_BYTES
    assert list(rows) == [(key, "a" * 100) for key in range(ROWS)]
    others = held_rows([(key, "a" * 100) for key in range(ROWS)])
    with pytest.raises(LimitExceeded):
        others.moment.count_in(KeptMemory(ROWS_BYTES))


def test_a_table_that_ends_leaves_its_rows_to_those_who_take_them() -> None:
    memory, table = KeptMemory(1 << 30), table_of_rows()
    chunks = chunks_of(table, memory)
    table.close()
    assert memory.taken > ROWS_BYTES
    assert walls_of(chunks) == [1] * ROWS


def test_a_table_without_rows_has_an_empty_snapshot() -> None:
    table = MemoryTableRows("accounts", MemoryLimits(10, 10))
    chunks = chunks_of(table, KeptMemory(1))
    batch = chunks.next()
    assert batch is not None
    assert (batch.rows, batch.is_snapshot, chunks.next()) == ((), True, None)

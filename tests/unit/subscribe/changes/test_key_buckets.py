"""The newest row of each key, of more rows than memory has room for."""

from __future__ import annotations

from random import Random

import pytest

from tests.unit.subscribe.gate.memory_spill import MemorySpill
from tidegate.errors import RepeatDiffers
from tidegate.subscribe.changes.key_buckets import KeyBuckets
from tidegate.subscribe.gate.feed_record import FeedPartition
from tidegate.subscribe.gate.opened_rows import OpenedRows, rows_of_chunks
from tidegate.subscribe.gate.row_chunk import RowChunk, int_column, memory_of

#: What a row of these tests takes in memory at most.
ROW_BYTES = 170


def rows_of(partition: int, rows: list[tuple[int, int, bytes | None]], first_offset: int = 0) -> OpenedRows:
    """Rows ``(key, wall, value)`` of a partition."""
    chunk = RowChunk(
        int_column(range(first_offset, first_offset + len(rows))),
        int_column([wall for _, wall, _ in rows]),
        int_column([0] * len(rows)),
        [b"[%d]" % key for key, _, _ in rows],
        [value for _, _, value in rows],
        [None] * len(rows),
        0,
    )
    return rows_of_chunks([(FeedPartition("t", partition), chunk)])


@pytest.mark.sampled(4)
@pytest.mark.parametrize("keys", [3, 300])
@pytest.mark.parametrize("chunk_rows", [0, 8, 100, 10_000])
def test_each_key_has_its_newest_row_once(keys: int, chunk_rows: int) -> None:
    random = Random(keys * chunk_rows)
    store = MemorySpill()
    buckets = KeyBuckets(store, chunk_rows * ROW_BYTES)
    newest: dict[bytes, tuple[int, bytes | None, int]] = {}
    wall = 0
    parts = []
    for part in range(60):
        partition, rows = part % 3, []
        for _ in range(20):
            wall += 1
            key = random.randrange(keys) * 3 + partition
            value = None if random.random() < 0.1 else b"%d" % wall
            rows.append((key, wall, value))
            newest[b"[%d]" % key] = wall, value, partition
        parts.append(rows_of(partition, rows, 20 * part))
    random.shuffle(parts)
    for each in parts:
        buckets.add_rows(each)
    found: dict[bytes, tuple[int, bytes | None, int]] = {}
    sizes = []
    for chunk in buckets.chunks():
        sizes.append(memory_of(chunk.keys, chunk.values, 0))
        for at, name in enumerate(chunk.keys):
            assert name not in found
            found[name] = int(chunk.walls[at]), chunk.values[at], chunk.places[at].partition
    assert found == newest
    assert not store.blocks
    assert not store.puts or chunk_rows < 10_000
    assert store.puts or keys * 3 < 2 * chunk_rows
    if chunk_rows:
        assert max(sizes) <= chunk_rows * ROW_BYTES


def test_a_key_with_many_versions_needs_no_store() -> None:
    store = MemorySpill()
    buckets = KeyBuckets(store, 100 * ROW_BYTES)
    for part in range(50):
        buckets.add_rows(rows_of(0, [(1, 1 + part * 30 + each, b"v") for each in range(30)]))
    (chunk,) = buckets.chunks()
    assert chunk.walls.tolist() == [1_500]
    assert not store.puts


def test_copies_are_counted_and_another_value_of_one_version_is_refused() -> None:
    buckets = KeyBuckets(MemorySpill(), 100 * ROW_BYTES)
    buckets.add_rows(rows_of(0, [(1, 5, b"a"), (1, 5, b"a"), (2, 5, b"b")]))
    (chunk,) = buckets.chunks()
    assert len(chunk) == 2
    assert buckets.copies == 1
    buckets.add_rows(rows_of(0, [(1, 5, b"a")]))
    buckets.add_rows(rows_of(0, [(1, 5, b"c")], 7))
    with pytest.raises(RepeatDiffers, match="offset 7"):
        list(buckets.chunks())


def test_no_rows_are_no_chunk() -> None:
    buckets = KeyBuckets(MemorySpill(), 0)
    buckets.add_rows(rows_of(0, []))
    assert list(buckets.chunks()) == []

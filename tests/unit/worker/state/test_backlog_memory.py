"""Backlogs on disk: what goes in comes out, in order, and memory stays bounded."""

from __future__ import annotations

from collections import deque
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from tidegate.errors import StateError
from tidegate.raftlog.entry import RangeId
from tidegate.ranges.backlog import RawEntry
from tidegate.worker.state.backlog_memory import BacklogMemory

_parts = st.none() | st.binary(max_size=40)
_entries = st.builds(RawEntry, st.integers(0, 2**62), _parts, _parts, st.integers(0, 2**62))


@given(
    actions=st.lists(st.tuples(st.integers(0, 1), _entries) | st.tuples(st.integers(0, 1), st.none())),
    memory_bytes=st.sampled_from([0, 500, 2_000, 10**9]),
)
@examples(30)
def test_entries_come_out_as_they_went_in(
    actions: list[tuple[int, RawEntry | None]], memory_bytes: int
) -> None:
    with TemporaryDirectory() as directory:
        memory = BacklogMemory(Path(directory), memory_bytes)
        queues = [memory.partition().queue(RangeId(number)) for number in (1, 2)]
        models: list[deque[RawEntry]] = [deque(), deque()]
        for number, entry in actions:
            queue, model = queues[number], models[number]
            if entry is not None:
                queue.append(entry)
                model.append(entry)
            elif model:
                assert queue.first() == model[0]
                assert queue.popleft() == model.popleft()
            assert len(queue) == len(model)
        for queue, model in zip(queues, models, strict=True):
            assert [queue.popleft() for _ in range(len(queue))] == list(model)
            queue.close()
        assert memory.disk_bytes == 0
        assert list(Path(directory).iterdir()) == []


def test_what_is_beyond_memory_lies_on_disk(tmp_path: Path) -> None:
    memory = BacklogMemory(tmp_path, 1_000)
    queue = memory.partition().queue(RangeId(1))
    for offset in range(100):
        queue.append(RawEntry(offset, b"k", b"v" * 100, 0))
    assert memory.disk_bytes > 95 * 100
    queue.close()
    assert memory.disk_bytes == 0
    assert memory.has_room(1_000)


def test_a_partition_that_is_closed_gives_its_room_back_and_no_other_partitions(tmp_path: Path) -> None:
    memory = BacklogMemory(tmp_path, 2_000)
    closed, goes_on = memory.partition(), memory.partition()
    left, kept = [closed.queue(RangeId(number)) for number in (1, 2)], goes_on.queue(RangeId(3))
    for offset in range(20):
        for queue in (*left, kept):
            queue.append(RawEntry(offset, b"k", b"v" * 100, 0))
    left[0].close()
    closed.close()
    assert memory.has_room(2_000 - 1_000)
    assert [entry.offset for entry in (kept.popleft() for _ in range(20))] == list(range(20))
    goes_on.close()
    assert memory.disk_bytes == 0
    assert memory.has_room(2_000)


def test_a_disk_that_takes_nothing_is_a_sentence(tmp_path: Path) -> None:
    place = tmp_path / "file"
    place.write_text("no directory")
    queue = BacklogMemory(place, 0).partition().queue(RangeId(1))
    with pytest.raises(StateError, match="read again from the log"):
        queue.append(RawEntry(0, b"k", b"v", 0))


def test_a_file_that_has_lost_its_end_is_told_and_gives_no_entry_that_is_cut(tmp_path: Path) -> None:
    queue = BacklogMemory(tmp_path, 0).partition().queue(RangeId(1))
    queue.append(RawEntry(1, b"k", b"v" * 100, 0))
    assert queue._file is not None
    queue._file.truncate(60)
    with pytest.raises(
        StateError, match=r"cannot be read: 100 bytes were written, and 35 are there\. Nothing is"
    ):
        queue.first()

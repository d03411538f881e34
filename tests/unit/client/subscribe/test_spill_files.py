"""Blocks of waiting rows on disk: whole or an error, private, and gone at the end."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import IO, Any, Final

import pytest

import tidegate.client.subscribe.spill_files
from stack.places import CHECKOUT
from tidegate.client.subscribe.spill_files import SpillFiles, SpillSettings
from tidegate.errors import SettingsError, SpillLost


@pytest.fixture
def files(tmp_path: Path) -> Iterator[SpillFiles]:
    made = SpillFiles(tmp_path / "spill", file_bytes=1_000)
    yield made
    made.close()


def opened(files: SpillFiles) -> list[IO[bytes]]:
    """The open files."""
    return [file.opened for file in files._files]


def test_blocks_come_back_as_they_were_in_any_order(files: SpillFiles) -> None:
    random = Random(5)
    blocks = [random.randbytes(random.randint(0, 600)) + bytes(600) for _ in range(40)]
    tickets = [files.put(block) for block in blocks]
    assert 0 < files.disk_bytes < sum(map(len, blocks))
    for at in random.sample(range(40), 40):
        assert files.pop(tickets[at]) == blocks[at]
    assert (files.disk_bytes, opened(files)) == (0, [])
    assert files.pop(files.put(b"again")) == b"again"


def test_a_file_is_deleted_with_the_last_of_its_blocks(files: SpillFiles) -> None:
    random = Random(5)
    tickets = [files.put(random.randbytes(500)) for _ in range(6)]
    assert len(opened(files)) == 3
    for ticket in tickets[2:4]:
        files.pop(ticket)
    assert len(opened(files)) == 2
    assert 2_000 <= files.disk_bytes < 2_100


def test_nobody_else_finds_a_file_and_nothing_is_made_before_the_first_block(
    files: SpillFiles, tmp_path: Path
) -> None:
    directory = tmp_path / "spill"
    assert not directory.exists()
    files.put(b"a row")
    assert list(directory.iterdir()) == []
    assert directory.stat().st_mode & 0o777 == 0o700
    assert os.fstat(opened(files)[0].fileno()).st_mode & 0o777 == 0o600
    files.close()
    files.close()
    assert files.disk_bytes == 0


@pytest.mark.parametrize("damage", [b"\xff", b""], ids=["flipped", "cut"])
def test_a_block_that_is_not_what_was_written_is_an_error(files: SpillFiles, damage: bytes) -> None:
    ticket = files.put(bytes(range(100)))
    file = opened(files)[0].fileno()
    if damage:
        found = os.pread(file, 1, 50)[0]
        os.pwrite(file, bytes([found ^ damage[0]]), 50)
    else:
        os.ftruncate(file, 50)
    with pytest.raises(SpillLost, match=r"spill cannot be used: it is not what was written.*resume") as lost:
        files.pop(ticket)
    assert (lost.value.code, lost.value.sqlstate) == ("spill_lost", "58030")


def test_a_disk_that_cannot_be_read_is_an_error(files: SpillFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    ticket = files.put(b"a row")

    def broken(*_: Any) -> bytes:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "pread", broken)
    with pytest.raises(SpillLost, match="Input/output error"):
        files.pop(ticket)


def test_a_full_disk_is_told_when_it_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    full = Path("/dev/full").open("r+b", buffering=0)  # noqa: SIM115 - the store closes it
    monkeypatch.setattr(tidegate.client.subscribe.spill_files, "_nameless", lambda _: full)
    files = SpillFiles(tmp_path)
    with pytest.raises(SpillLost, match=r"No space left on device.*make room there or name another"):
        files.put(b"a row")
    files.close()
    assert full.closed


def test_a_directory_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(SpillLost, match=r"file/spill does not take them"):
        SpillFiles(tmp_path / "file" / "spill").put(b"a row")


_MIB: Final = 1 << 20


@pytest.mark.long
@pytest.mark.parametrize(
    ("rows", "memory_mib", "more_mib"),
    [(250_000, 16, 48), pytest.param(1_000_000, 64, 128, marks=pytest.mark.soak)],
)
def test_rows_behind_a_partition_that_stands_still_take_bounded_memory(
    rows: int, memory_mib: int, more_mib: int, tmp_path: Path
) -> None:
    """In a process of its own: without the disk a row takes 360 bytes."""
    module = "tests.unit.client.subscribe.stuck_partition"
    command = [sys.executable, "-m", module, str(rows), str(memory_mib * _MIB), str(tmp_path)]
    ended = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, timeout=300, check=False)
    assert ended.returncode == 0, ended.stderr
    told = json.loads(ended.stdout)
    print(told)
    assert told["waiting"] == told["delivered"] == rows
    assert told["while_waiting"] < more_mib * _MIB
    assert told["in_all"] < more_mib * _MIB  # when they are let go, too
    assert told["disk"] > 0


@pytest.mark.long
@pytest.mark.parametrize("joint", [(), ("--joint",)], ids=["one table", "three tables"])
@pytest.mark.parametrize(
    ("rows", "memory_mib", "more_mib"),
    [(250_000, 16, 48), pytest.param(1_000_000, 64, 128, marks=pytest.mark.soak)],
)
def test_a_snapshot_in_chunks_takes_bounded_memory(
    rows: int, memory_mib: int, more_mib: int, joint: tuple[str, ...], tmp_path: Path
) -> None:
    """In a process of its own: as one batch 250,000 rows take 252 MiB."""
    module = "tests.unit.client.subscribe.large_snapshot"
    command = [sys.executable, "-m", module, str(rows), str(memory_mib * _MIB), str(tmp_path), *joint]
    ended = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, timeout=300, check=False)
    assert ended.returncode == 0, ended.stderr
    told = json.loads(ended.stdout)
    print(told)
    assert told["delivered"] == rows
    assert told["largest"] < rows // 10
    assert told["in_all"] < more_mib * _MIB
    assert told["disk"] == 0  # every block was taken


def test_memory_below_nothing_is_refused() -> None:
    with pytest.raises(SettingsError, match="-1 bytes: give 0 or more"):
        SpillSettings(memory_bytes=-1)

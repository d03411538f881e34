"""Spools: rows come out as they went in, in order, and what they take of the disk is bounded."""

from __future__ import annotations

import os
from collections import deque
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tidegate.worker.output.spool
from tests.examples import examples
from tidegate.errors import SpoolLost
from tidegate.processor.batch import OutputRecord
from tidegate.worker.output.spool import Spool

_ROW: Final = OutputRecord("t", 0, b"k", b"v" * 100, 1, [])

_rows = st.builds(
    OutputRecord,
    st.text(max_size=10),
    st.integers(0, 2**31 - 1),
    st.binary(max_size=40),
    st.none() | st.binary(max_size=200),
    st.integers(-(2**62), 2**62),
    st.lists(st.tuples(st.text(max_size=5), st.binary(max_size=9)), max_size=2),
)


@given(
    actions=st.lists(st.lists(_rows, min_size=1, max_size=4) | st.integers(0, 400)),
    limit_bytes=st.sampled_from([700, 1 << 20]),
)
@examples(30)
def test_rows_come_out_as_they_went_in(actions: list[list[OutputRecord] | int], limit_bytes: int) -> None:
    with TemporaryDirectory() as directory:
        spool, model = Spool(Path(directory), limit_bytes), deque[OutputRecord]()
        for action in actions:
            if isinstance(action, int):
                rows = spool.take(action) if model else []
                assert rows == [model.popleft() for _ in rows]
            else:
                try:
                    spool.append(action)
                    model += action
                except SpoolLost:
                    assert limit_bytes == 700
            assert bool(spool) == bool(model)
            assert spool.bytes <= limit_bytes
        left = list[OutputRecord]()
        while spool:
            left += spool.take(50)
        assert left == list(model)
        assert spool.bytes == 0
        assert os.listdir(directory) == []


def test_at_least_one_row_is_taken_and_no_more_than_asked_for(tmp_path: Path) -> None:
    spool = Spool(tmp_path, 1 << 20)
    spool.append([_ROW] * 10)
    assert [len(spool.take(most)) for most in (0, 1, 200, 1 << 20)] == [1, 1, 2, 6]


def test_room_comes_back_while_there_is_more_behind(tmp_path: Path) -> None:
    spool = Spool(tmp_path, 8_000)
    for _ in range(6_000 // 126):
        spool.append([_ROW])
    full = spool.bytes
    for _ in range(24):
        spool.take(1)
    assert spool
    assert spool.bytes < full * 2 / 3
    spool.close()
    assert (spool.bytes, bool(spool)) == (0, False)


def test_a_full_spool_takes_nothing_and_says_so(tmp_path: Path) -> None:
    spool = Spool(tmp_path, 300)
    spool.append([_ROW, _ROW])
    with pytest.raises(SpoolLost, match=r"feed_spool_bytes \(300\)"):
        spool.append([_ROW])
    assert spool.take(1 << 20) == [_ROW, _ROW]


def test_a_directory_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(SpoolLost, match=r"file/spools does not take them"):
        Spool(tmp_path / "file" / "spools", 300).append([_ROW])


def test_a_full_disk_is_told_when_it_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tidegate.worker.output.spool, "_nameless", lambda _: Path("/dev/full").open("r+b"))  # noqa: SIM115 - the spool closes it
    spool = Spool(tmp_path, 1 << 20)
    with pytest.raises(SpoolLost, match="No space left on device"):
        spool.append([_ROW])
    spool.close()  # what the disk did not take is in the file's buffer still


@pytest.mark.parametrize(
    "headers", [[("h" * 70_000, b"x" * 70_000)], [("h", b"")] * 70_000], ids=["a long name", "many"]
)
def test_headers_of_any_size_come_back(headers: list[tuple[str, bytes]], tmp_path: Path) -> None:
    """A length of two bytes ended the worker."""
    spool = Spool(tmp_path, 1 << 30)
    spool.append([_ROW._replace(headers=headers)])
    (row,) = spool.take(1)
    assert row.headers == headers
    spool.close()

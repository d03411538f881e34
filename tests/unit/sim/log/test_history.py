"""The true history, in memory and in its file."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.log.history import History, HistoryFile, HistoryVersion
from tests.entries import timestamps
from tidegate.errors import StateError
from tidegate.hlc import Timestamp

_versions = st.builds(
    HistoryVersion, st.integers(1, 2**32 - 1), st.binary(max_size=9), timestamps, st.binary(max_size=9)
)
_A1 = HistoryVersion(1, b"a", Timestamp(10), b"one")
_A2 = HistoryVersion(1, b"a", Timestamp(20), b"two")
_A3 = HistoryVersion(1, b"a", Timestamp(30), b"")
_B1 = HistoryVersion(2, b"b", Timestamp(15), b"other")


def test_as_of_has_the_newest_version_at_or_below_the_timestamp() -> None:
    history = History([_A1, _B1, _A2])
    assert history.as_of(Timestamp(9)) == {}
    assert history.as_of(Timestamp(10)) == {b"a": _A1}
    assert history.as_of(Timestamp(20)) == {b"a": _A2, b"b": _B1}


def test_a_deleted_row_is_not_there() -> None:
    assert History([_A1, _A3]).as_of(Timestamp(30)) == {}


def test_as_of_can_ask_for_one_table() -> None:
    assert History([_A1, _B1]).as_of(Timestamp(50), table_id=2) == {b"b": _B1}


@given(versions=st.lists(_versions))
def test_a_dumped_history_is_loaded_as_it_was(
    versions: list[HistoryVersion], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("history") / "history"
    History(versions).dump(path)
    assert list(History.load(path)) == versions


def test_a_history_written_as_it_happens_is_the_dumped_one(tmp_path: Path) -> None:
    with HistoryFile(tmp_path / "written") as file:
        file.record(_A1)
        file.record(_B1)
    History([_A1, _B1]).dump(tmp_path / "dumped")
    assert (tmp_path / "written").read_bytes() == (tmp_path / "dumped").read_bytes()


def test_the_format_of_the_file(tmp_path: Path) -> None:
    History([_A1]).dump(tmp_path / "history")
    assert (tmp_path / "history").read_bytes() == b"".join(
        (
            b"tidegate history\x02",
            bytes.fromhex("00000001 000000000000000a 00000000"),  # table, wall, logical
            bytes.fromhex("00000001 00000003"),  # sizes of key and value
            b"aone",
            bytes(4) + b"end of this history\n",  # no table has the id 0
        )
    )


def _cut(path: Path, size: int) -> str:
    """Return what a reader says of the file when it has only so many bytes."""
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(StateError) as refused:
        History.load(path)
    return str(refused.value)


@pytest.mark.parametrize("cut", [1, 5, 25, 29])
def test_a_torn_file_is_refused(cut: int, tmp_path: Path) -> None:
    path = tmp_path / "history"
    History([_A1, _A2]).dump(path)
    assert "ends within a record" in _cut(path, path.stat().st_size - cut)


def test_a_file_that_is_cut_anywhere_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "history"
    History([_A1, _A2]).dump(path)
    for size in reversed(range(path.stat().st_size)):
        assert "its writer still runs, or died" in _cut(path, size)


def test_a_file_cut_between_two_records_is_refused(tmp_path: Path) -> None:
    History([_A1]).dump(tmp_path / "one")
    History([_A1, _A2]).dump(tmp_path / "two")
    size = (tmp_path / "one").stat().st_size - len(bytes(4) + b"end of this history\n")
    assert "has no end" in _cut(tmp_path / "two", size)


def test_a_file_whose_writer_still_runs_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "history"
    with HistoryFile(path) as file:
        file.record(_A1)
        file._frames.flush()
        with pytest.raises(StateError, match="its writer still runs"):
            History.load(path)
    assert list(History.load(path)) == [_A1]


def test_a_file_whose_writer_failed_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "history"

    def fail() -> None:
        with HistoryFile(path) as file:
            file.record(_A1)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    with pytest.raises(StateError, match="its writer still runs, or died"):
        History.load(path)


def test_a_file_of_another_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "history"
    path.write_bytes(b"tidegate history\x01")
    with pytest.raises(StateError, match="write it again"):
        History.load(path)

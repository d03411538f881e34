"""The true history, in memory and in its file."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.history import History, HistoryFile, Version
from tests.entries import timestamps
from tidegate.errors import StateError
from tidegate.hlc import Timestamp

_versions = st.builds(
    Version, st.integers(1, 2**32 - 1), st.binary(max_size=9), timestamps, st.binary(max_size=9)
)
_A1 = Version(1, b"a", Timestamp(10), b"one")
_A2 = Version(1, b"a", Timestamp(20), b"two")
_A3 = Version(1, b"a", Timestamp(30), b"")
_B1 = Version(2, b"b", Timestamp(15), b"other")


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
    versions: list[Version], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("history") / "history"
    History(versions).dump(path)
    assert list(History.load(path)) == versions


def test_a_history_written_as_it_happens_is_the_dumped_one(tmp_path: Path) -> None:
    file = HistoryFile(tmp_path / "written")
    file.record(_A1)
    file.record(_B1)
    file.close()
    History([_A1, _B1]).dump(tmp_path / "dumped")
    assert (tmp_path / "written").read_bytes() == (tmp_path / "dumped").read_bytes()


def test_the_format_of_the_file(tmp_path: Path) -> None:
    History([_A1]).dump(tmp_path / "history")
    assert (tmp_path / "history").read_bytes() == b"".join(
        (
            b"tidegate history\x01",
            bytes.fromhex("00000001 000000000000000a 00000000"),  # table, wall, logical
            bytes.fromhex("00000001 00000003"),  # sizes of key and value
            b"aone",
        )
    )


@pytest.mark.parametrize("cut", [1, 5, 25])
def test_a_torn_file_is_refused(cut: int, tmp_path: Path) -> None:
    path = tmp_path / "history"
    History([_A1, _A2]).dump(path)
    path.write_bytes(path.read_bytes()[:-cut])
    with pytest.raises(StateError, match="ends within a record"):
        History.load(path)


def test_a_file_of_another_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "history"
    path.write_bytes(b"tidegate history\x02")
    with pytest.raises(StateError, match="write it again"):
        History.load(path)

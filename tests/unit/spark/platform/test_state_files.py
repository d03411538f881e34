"""State of a partition in files: what is loaded is what was written, or is refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import fs

from tidegate.errors import StateError
from tidegate.processor.batch import StateTable
from tidegate.spark.platform.state_files import Changes, StateFiles, apply_changes

_ADDRESSES = st.tuples(st.sampled_from(StateTable), st.binary(max_size=3))
_CHANGES = st.dictionaries(_ADDRESSES, st.none() | st.binary(max_size=3), max_size=6)


def _files(root: Path) -> StateFiles:
    return StateFiles(fs.LocalFileSystem(), str(root), 3)


@given(first=_CHANGES, later=st.lists(_CHANGES, max_size=4))
def test_a_state_is_what_its_files_say_together(
    tmp_path_factory: pytest.TempPathFactory, first: Changes, later: list[Changes]
) -> None:
    files = _files(tmp_path_factory.mktemp("state"))
    rows: dict[tuple[StateTable, bytes], bytes] = {}
    apply_changes(rows, first)
    files.write("0", "", rows)
    for number, changes in enumerate(later):
        files.write(str(number + 1), str(number), changes)
        apply_changes(rows, changes)
    loaded = files.load(str(len(later)))
    size = sum(len(key) + len(value) for (_, key), value in rows.items())
    assert loaded == (rows, str(len(later)), "0", sum(map(len, later)), len(later), size)


@given(first=_CHANGES, later=st.lists(_CHANGES, max_size=5), base=st.integers(1, 5), data=st.data())
def test_a_state_that_is_followed_is_the_one_that_is_loaded(
    tmp_path_factory: pytest.TempPathFactory,
    first: Changes,
    later: list[Changes],
    base: int,
    data: st.DataObject,
) -> None:
    """There may be a base between the older state and the newer one, and the older one may be of a dead
    attempt."""
    files = _files(tmp_path_factory.mktemp("state"))
    rows: dict[tuple[StateTable, bytes], bytes] = {}
    apply_changes(rows, first)
    files.write("0", "", rows)
    for number, changes in enumerate(later, 1):
        apply_changes(rows, changes)
        files.write(
            str(number), "" if number == base else str(number - 1), rows if number == base else changes
        )
        files.write(f"{number}-dead", str(number - 1), {(StateTable.RANGES, b"dead"): b""})
    older = data.draw(st.integers(0, len(later)))
    dead = older > 0 and data.draw(st.booleans())
    known = files.load(f"{older}-dead" if dead else str(older))
    newest = str(len(later))
    is_behind = not dead and not older < base <= len(later)
    followed = files.load(newest, known)
    assert followed == files.load(newest)
    assert [*followed.rows] == [*files.load(newest).rows], "the order too"
    assert (followed.rows is known.rows) == is_behind


def test_following_reads_no_file_that_is_known(tmp_path: Path) -> None:
    files, address = _files(tmp_path), (StateTable.RANGES, b"range")
    for number, previous in (("0", ""), ("1", "0"), ("2", "1"), ("3", "2")):
        files.write(number, previous, {address: number.encode()})
    known = files.load("1")
    for number in ("0", "1"):
        (tmp_path / "state/3" / f"{number}.arrow").unlink()
    assert files.load("3", known).rows == {address: b"3"}


def test_what_is_known_stays_when_a_file_cannot_be_read(tmp_path: Path) -> None:
    files, address = _files(tmp_path), (StateTable.RANGES, b"range")
    for number, previous in (("0", ""), ("1", "0"), ("2", "1")):
        files.write(number, previous, {address: number.encode()})
    known = files.load("0")
    (tmp_path / "state/3/1.arrow").unlink()
    with pytest.raises(StateError, match=r"1\.arrow is missing"):
        files.load("2", known)
    assert known == files.load("0")


def test_an_earlier_state_is_there_as_well(tmp_path: Path) -> None:
    files, address = _files(tmp_path), (StateTable.RANGES, b"range")
    files.write("0", "", {address: b"old"})
    files.write("1", "0", {address: b"new"})
    assert (files.load("0").rows, files.load("1").rows) == ({address: b"old"}, {address: b"new"})


@pytest.mark.parametrize("gone", ["0", "1", "2"])
def test_a_file_that_is_missing_is_named(tmp_path: Path, gone: str) -> None:
    files = _files(tmp_path)
    for number, previous in (("0", ""), ("1", "0"), ("2", "1")):
        files.write(number, previous, {(StateTable.RANGES, b"range"): number.encode()})
    (tmp_path / "state/3" / f"{gone}.arrow").unlink()
    with pytest.raises(StateError, match=rf"log partition 3 .*/3/{gone}\.arrow is missing"):
        files.load("2")


def test_a_file_that_is_torn_is_named_wherever_it_is_torn(tmp_path: Path) -> None:
    files = _files(tmp_path)
    files.write("0", "", {(StateTable.RANGES, b"range"): b"row"})
    path = tmp_path / "state/3/0.arrow"
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(StateError, match=r"/3/0\.arrow is torn"):
            files.load("0")


def test_what_no_state_needs_is_removed(tmp_path: Path) -> None:
    files = _files(tmp_path)
    for number, previous in (("0", ""), ("1", "0"), ("2", ""), ("3", "2")):
        files.write(number, previous, {(StateTable.RANGES, b"range"): number.encode()})
    assert not files.remove_before("2", 9)
    assert files.names() == ["2", "3"]
    files.load("3")


def test_files_are_removed_a_few_at_a_time_the_oldest_first(tmp_path: Path) -> None:
    files = _files(tmp_path)
    for number in "01234":
        files.write(number, "", {(StateTable.RANGES, b"range"): b"row"})
    assert files.remove_before("4", 3)
    assert files.names() == ["3", "4"]
    assert not files.remove_before("4", 3)
    assert files.names() == ["4"]


def test_a_file_that_another_attempt_has_removed_is_no_fault(tmp_path: Path) -> None:
    files = _Overtaken(tmp_path)
    for number in "012":
        files.write(number, "", {(StateTable.RANGES, b"range"): b"row"})
    assert not files.remove_before("2", 9)
    assert files.names() == ["2"]


class _Overtaken(StateFiles):
    """Another attempt removes what this one has found."""

    def __init__(self, root: Path) -> None:
        super().__init__(fs.LocalFileSystem(), str(root), 3)
        self._other = StateFiles(fs.LocalFileSystem(), str(root), 3)

    def _found(self) -> Iterator[str]:
        found = [*super()._found()]
        self._other.remove_before("2", 9)
        return iter(found)


def test_what_a_task_left_unfinished_is_removed_when_it_is_old(tmp_path: Path) -> None:
    """A younger one may be that of a task that still runs."""
    files = _files(tmp_path)
    files.write("2", "", {(StateTable.RANGES, b"range"): b"2"})
    directory = tmp_path / "state" / "3"
    for name in (".1-0a", ".3-0b"):
        (directory / name).write_bytes(b"half")
    files.remove_before("2", 9)
    assert sorted(path.name for path in directory.iterdir()) == [".3-0b", "2.arrow"]

"""A value of a run is made by one process, whoever dies."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier, get_ident

import pytest

from tests.made_once import MadeOnce


def test_of_many_who_ask_at_once_one_makes_it(tmp_path: Path) -> None:
    made, all_ask = list[int](), Barrier(8)

    def make() -> tuple[int, ...]:
        made.append(get_ident())
        return (1, 2, 3)

    def ask(_: int) -> tuple[int, ...]:
        all_ask.wait()
        return MadeOnce(tmp_path / "of the run").value("numbers", make)

    with ThreadPoolExecutor(8) as several:
        assert list(several.map(ask, range(8))) == [(1, 2, 3)] * 8
    assert len(made) == 1


def test_names_are_apart(tmp_path: Path) -> None:
    values = MadeOnce(tmp_path)
    assert [values.value(name, name.upper) for name in ("a", "b", "a")] == ["A", "B", "A"]


def test_what_could_not_be_made_is_made_by_the_next(tmp_path: Path) -> None:
    def fail() -> str:
        raise ValueError("it breaks")

    with pytest.raises(ValueError, match="it breaks"):
        MadeOnce(tmp_path).value("name", fail)
    assert MadeOnce(tmp_path).value("name", lambda: "whole") == "whole"


def test_without_a_directory_each_makes_its_own() -> None:
    assert [MadeOnce().value("name", text.upper) for text in ("a", "b")] == ["A", "B"]

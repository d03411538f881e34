"""The order of tests among several processes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.dealing import dealt

_FILES = st.lists(st.lists(st.sampled_from([0, 0, 3, 20]), min_size=1, max_size=8), max_size=12)


def _tests(files: list[list[int]]) -> list[tuple[int, int, int]]:
    """Tests as (file, number in it, seconds)."""
    return [
        (file, number, seconds) for file, tests in enumerate(files) for number, seconds in enumerate(tests)
    ]


def _dealt(files: list[list[int]], processes: int) -> list[tuple[int, int, int]]:
    return dealt(_tests(files), processes, lambda test: test[0], lambda test: test[2])


@given(files=_FILES, processes=st.integers(1, 5))
def test_every_test_is_dealt_once(files: list[list[int]], processes: int) -> None:
    assert sorted(_dealt(files, processes)) == _tests(files)


@given(files=_FILES, processes=st.integers(1, 5))
def test_a_file_that_takes_long_stays_together(files: list[list[int]], processes: int) -> None:
    order = _dealt(files, processes)
    for file, tests in enumerate(files):
        if any(tests):
            first = order.index((file, 0, tests[0]))
            assert [test[:2] for test in order[first : first + len(tests)]] == [
                (file, number) for number in range(len(tests))
            ]


@given(files=_FILES, processes=st.integers(1, 5))
def test_what_belongs_together_stays_so_wherever_it_was_collected(
    files: list[list[int]], processes: int
) -> None:
    """Tests of one folder have those of others between them."""
    apart = sorted(_tests(files), key=lambda test: test[1])
    order = dealt(apart, processes, lambda test: test[0], lambda test: test[2])
    assert sorted(order) == sorted(apart)
    for file, tests in enumerate(files):
        if any(tests):
            first = order.index((file, 0, tests[0]))
            assert [test[0] for test in order[first : first + len(tests)]] == [file] * len(tests)


@pytest.mark.parametrize("processes", [2, 3, 4])
def test_every_process_begins_with_its_share_of_what_takes_long(processes: int) -> None:
    order = _dealt([[0] * 60, *[[20, 0]] * (2 * processes), [0] * 60], processes)
    size = len(order) // processes
    for first in range(0, size * processes, size):
        seconds = [test[2] for test in order[first : first + size]]
        assert seconds[:4] == [20, 0, 20, 0]
        assert not any(seconds[4:])

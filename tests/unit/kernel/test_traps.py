"""Faults of a kernel are told once. After three in a row it rests, each time longer, and is tried again."""

from __future__ import annotations

import pytest

from tidegate.kernel.traps import FIRST_REST, IN_A_ROW_MAX, LONGEST_REST, Rest, Traps


def _length(rest: Rest) -> int:
    """Return how many calls do not go to the kernel from here on."""
    return next(calls for calls in range(2 * LONGEST_REST) if rest.is_over())


def _fail(rest: Rest, times: int) -> list[bool]:
    return [rest.failed() for _ in range(times)]


def test_a_kernel_rests_after_three_faults_in_a_row_and_is_tried_again() -> None:
    rest = Rest()
    assert _fail(rest, IN_A_ROW_MAX) == [False, False, True]
    assert _length(rest) == FIRST_REST
    assert rest.is_over()


def test_each_further_rest_is_twice_as_long_up_to_a_bound() -> None:
    rest = Rest()
    _fail(rest, IN_A_ROW_MAX - 1)
    lengths = [_length(rest) for _ in range(9) if rest.failed()]
    assert lengths == [min(FIRST_REST << number, LONGEST_REST) for number in range(9)]


def test_a_batch_that_goes_well_begins_the_count_anew() -> None:
    rest = Rest()
    for _ in range(5):
        assert not any(_fail(rest, IN_A_ROW_MAX - 1))
        rest.passed()
    assert _fail(rest, IN_A_ROW_MAX)[-1]
    assert _length(rest) == FIRST_REST


def test_the_first_trap_is_named_in_the_log_once(caplog: pytest.LogCaptureFixture) -> None:
    traps = Traps()
    traps.trapped(RuntimeError("unreachable"))
    traps.trapped(RuntimeError("unreachable"))
    (record,) = caplog.records
    assert "RuntimeError: unreachable. It is a defect, please report it" in record.getMessage()
    assert traps.count == 2


def test_a_rest_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    traps = Traps()
    for _ in range(5):
        traps.rests()
    (record,) = caplog.records
    assert "broke 3 times in a row: Python takes the next 1000 batches" in record.getMessage()


def test_a_lack_of_memory_is_told_once_and_is_no_trap(caplog: pytest.LogCaptureFixture) -> None:
    traps = Traps()
    for _ in range(5):
        traps.no_memory()
    (record,) = caplog.records
    assert "needs more memory than it gets" in record.getMessage()
    assert "defect" not in record.getMessage()
    assert traps.count == 0


def test_a_lack_of_room_is_told_once_and_is_no_trap(caplog: pytest.LogCaptureFixture) -> None:
    traps = Traps()
    for _ in range(5):
        traps.no_room(MemoryError("mmap failed"))
    (record,) = caplog.records
    assert "`ulimit -v`" in record.getMessage()
    assert traps.count == 0

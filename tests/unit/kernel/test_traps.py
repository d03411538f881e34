"""Three traps in a row switch the kernel off; a batch that goes well between them does not count."""

from __future__ import annotations

import pytest

from tidegate.kernel.traps import Traps


def test_three_traps_in_a_row_switch_the_kernel_off_for_good() -> None:
    traps = Traps()
    for _ in range(3):
        assert not traps.is_off
        traps.trapped(RuntimeError("unreachable"))
    assert traps.is_off
    traps.passed()
    assert traps.is_off


def test_a_batch_that_goes_well_begins_the_count_anew() -> None:
    traps = Traps()
    for _ in range(5):
        traps.trapped(RuntimeError("unreachable"))
        traps.trapped(RuntimeError("unreachable"))
        traps.passed()
    assert not traps.is_off
    assert traps.count == 10


def test_the_first_trap_is_named_in_the_log_once(caplog: pytest.LogCaptureFixture) -> None:
    traps = Traps()
    traps.trapped(RuntimeError("unreachable"))
    traps.passed()
    traps.trapped(RuntimeError("unreachable"))
    (record,) = caplog.records
    assert "RuntimeError: unreachable. It is a defect, please report it" in record.getMessage()


def test_a_lack_of_room_is_told_once_and_is_no_trap(caplog: pytest.LogCaptureFixture) -> None:
    traps = Traps()
    for _ in range(5):
        traps.no_room(MemoryError("mmap failed"))
    (record,) = caplog.records
    assert "`ulimit -v`" in record.getMessage()
    assert (traps.count, traps.is_off) == (0, False)

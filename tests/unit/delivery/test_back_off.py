"""The pauses between attempts."""

from __future__ import annotations

from tidegate.delivery.back_off import BackOff


def test_pauses_grow_to_ten_seconds_and_begin_anew_after_a_success() -> None:
    back_off = BackOff()
    assert [back_off.failed() for _ in range(7)] == [0.5, 1, 2, 4, 8, 10, 10]
    back_off.succeeded()
    assert back_off.failed() == 0.5

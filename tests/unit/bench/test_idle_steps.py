"""Heartbeats of idle ranges are measured by Python and with the kernel over the same log."""

from __future__ import annotations

from bench.idle_steps import beat_us, logs
from tidegate.kernel.kernel_mode import KernelMode


def test_each_range_beats_once_a_round() -> None:
    _, *rounds = logs(7, 2)
    assert list(map(len, rounds)) == [7, 7]


def test_heartbeats_are_stepped_by_python_and_with_the_kernel() -> None:
    log = list(logs(20, 2))
    assert all(beat_us(mode, log) > 0 for mode in (KernelMode.OFF, KernelMode.ON))

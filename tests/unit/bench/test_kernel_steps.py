"""Both ways of a step are measured over the same log."""

from __future__ import annotations

from bench.kernel_steps import step_times
from bench.workload import orders_log


def test_a_log_is_stepped_by_python_and_with_the_kernel() -> None:
    times = step_times(orders_log(500, 1, seed=1), passes=1)
    assert times.python_us > 0
    assert times.kernel_us > 0

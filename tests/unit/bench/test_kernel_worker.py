"""A worker is compared with the raw copy of its rows."""

from __future__ import annotations

from bench.endtoend import Throughput
from bench.kernel_worker import KernelWorker, over_copy


def test_a_worker_has_its_rate_and_its_processor_time_over_those_of_the_copy() -> None:
    worker = Throughput("on", "orders", 100, 5.0, 20.0, 15.0)
    copy = Throughput("raw copy-through", "orders", 100, 2.5, 40.0, 6.0)
    assert over_copy(worker, copy) == KernelWorker("on", 100, 20.0, 0.5, 15.0, 2.5)

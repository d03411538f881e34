"""The whole step by Python and with the kernel, for the kinds of rows that have a goal: a part of
``kernel_steps``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final, NamedTuple

from bench.kernel_steps import step_times
from bench.workload import BENCH_OPTIONS, MakeLog, flights_log, orders_log, updates_log
from tidegate.changefeed.definition.options import FeedOptions, Format

ORDERS: Final = "orders"
FLIGHTS: Final = "flights"
UPDATES: Final = "updates with the row before"
AVRO: Final = "orders, Avro wrapped"
_PASSES: Final = 3
CASES: Final[dict[str, tuple[MakeLog, FeedOptions]]] = {
    ORDERS: (orders_log, BENCH_OPTIONS),
    FLIGHTS: (flights_log, BENCH_OPTIONS),
    UPDATES: (updates_log, replace(BENCH_OPTIONS, diff=True)),
    AVRO: (orders_log, replace(BENCH_OPTIONS, format=Format.AVRO)),
}


class StepCost(NamedTuple):
    """Processor time of the whole step of a row, in microseconds: the best of some passes."""

    log: str
    python_us: float
    kernel_us: float


def step_costs(rows: int, seed: int) -> Iterator[StepCost]:
    """Measure each log, of about ``rows`` rows."""
    for name, (make, options) in CASES.items():
        yield StepCost(name, *step_times(make(rows, 1, seed), _PASSES, (options,)))

"""Time is linear (docs/security.md#time-is-linear): four times the bytes take about four times the time.

Time is that of the processor, the best of several runs, so that other work on the machine disturbs it little.
What takes n * n shows a ratio of 16; what is allowed is 8.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from time import process_time
from typing import Final

import pytest

from tests.hostile.growing_inputs import growing_inputs
from tests.hostile.growing_rows import ENCODERS, GrowingRow, decoder, encoder, growing_rows
from tidegate.errors import TidegateError

Work = Callable[[], object]

_SMALL: Final = 10_000
_LARGE: Final = 4 * _SMALL
_MEGABYTE: Final = 1_000_000
_RATIO_MAX: Final = 8
#: Of a megabyte. A second or two, and what a slow or busy machine adds to it.
_SECONDS_MAX: Final = 10.0
#: Below it the clock and the processor's caches say more than the input.
_MEASURABLE_S: Final = 0.003
_RUNS: Final = 5


def _seconds(work: Work) -> float:
    """The processor time of the work; a named refusal is an end as good as any."""
    begin = process_time()
    with suppress(TidegateError):
        work()
    return process_time() - begin


def _require_linear(make: Callable[[int], Work]) -> None:
    small, large = make(_SMALL), make(_LARGE)
    shortest = longest = float("inf")
    for _ in range(_RUNS):
        shortest, longest = min(shortest, _seconds(small)), min(longest, _seconds(large))
        if longest <= max(_MEASURABLE_S, _RATIO_MAX / 2 * shortest):
            break  # only a doubtful ratio is worth more runs
    assert longest * _MEGABYTE / _LARGE < _SECONDS_MAX, f"{longest:.3f} s for {_LARGE} bytes"
    if longest > _MEASURABLE_S:
        assert longest < _RATIO_MAX * shortest, f"{shortest:.4f} s for {_SMALL}, {longest:.4f} s for {_LARGE}"


@pytest.mark.parametrize("row", [*growing_rows()], ids=lambda row: row.name)
def test_a_row_is_read_in_linear_time(row: GrowingRow) -> None:
    _require_linear(lambda size: decoder(row, size))


@pytest.mark.parametrize("feed", ENCODERS)
@pytest.mark.parametrize("row", [*growing_rows()], ids=lambda row: row.name)
def test_a_row_is_written_in_linear_time(row: GrowingRow, feed: str) -> None:
    if encoder(row, ENCODERS[feed], 100) is None:
        return  # no feed of that format can have such a column

    def make(size: int) -> Work:
        work = encoder(row, ENCODERS[feed], size)
        assert work is not None
        return work

    _require_linear(make)


@pytest.mark.parametrize("make", [pytest.param(make, id=name) for name, make in growing_inputs()])
def test_other_input_is_read_in_linear_time(make: Callable[[int], Work]) -> None:
    _require_linear(make)

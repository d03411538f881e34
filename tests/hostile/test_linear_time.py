"""Time is linear (docs/security.md#time-is-linear): four times the bytes take about four times the time.

Time is that of the processor, the best of several runs, so that other work on the machine disturbs it little.
Python's collector of garbage rests meanwhile: its time grows with the objects of the whole process.
What takes n * n shows a ratio of 16; what is allowed is 8. A ratio above that must show again at the next two
steps, up to 64 n: n * n does, and an output that outgrows the processor's caches does so once.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from time import process_time
from typing import Any, Final

import pytest

from tests.hostile.growing_check_logs import CHECKED_LOGS, CheckedLog
from tests.hostile.growing_claims import GROWING_CLAIMS, GrowingClaims
from tests.hostile.growing_feeds import GROWING_FEEDS, GrowingFeeds
from tests.hostile.growing_inputs import growing_inputs
from tests.hostile.growing_logs import GROWING_LOGS, GrowingLog
from tests.hostile.growing_records import growing_records
from tests.hostile.growing_rows import ENCODERS, GrowingRow, decoder, encoder, growing_rows
from tidegate.errors import TidegateError

Work = Callable[[], object]

_SMALL: Final = 10_000
#: Of a log for check-log, in units such as splits.
_SMALL_LOG: Final = 200
_STEP: Final = 4
#: So many in a row are no accident.
_STEEP_STEPS: Final = 3
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


def _times(small: Work, large: Work) -> tuple[float, float]:
    """The best of several runs of both, in seconds; one run is enough where the ratio is not in doubt."""
    shortest = longest = float("inf")
    for _ in range(_RUNS):
        shortest, longest = min(shortest, _seconds(small)), min(longest, _seconds(large))
        if not _is_steep(2 * longest, shortest):
            break
    return shortest, longest


def _is_steep(longer: float, shorter: float) -> bool:
    return longer > _MEASURABLE_S and longer > _RATIO_MAX * shorter


@contextmanager
def _no_collection() -> Iterator[None]:
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _require_linear(
    make: Callable[[int], Work], size: int = _SMALL, bytes_of: Callable[[Any], int] | None = None
) -> None:
    """``make`` makes the work on an input of so many bytes, or units where ``bytes_of`` counts the bytes."""
    steep: list[str] = []
    with _no_collection():
        for _ in range(_STEEP_STEPS):
            larger = size * _STEP
            small, large = make(size), make(larger)
            shorter, longer = _times(small, large)
            length = larger if bytes_of is None else bytes_of(large)
            assert longer * _MEGABYTE / length < _SECONDS_MAX, f"{longer:.3f} s for {length} bytes"
            if not _is_steep(longer, shorter):
                return
            steep.append(f"{shorter:.4f} s for a size of {size}, {longer:.4f} s for {larger}")
            size = larger
    pytest.fail("; ".join(steep))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("row", [*growing_rows()], ids=lambda row: row.name)
def test_a_row_is_read_in_linear_time(row: GrowingRow) -> None:
    _require_linear(lambda size: decoder(row, size))


@pytest.mark.sampled(4)
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


@pytest.mark.sampled(4)
@pytest.mark.parametrize("make", [pytest.param(make, id=name) for name, make in growing_inputs()])
def test_other_input_is_read_in_linear_time(make: Callable[[int], Work]) -> None:
    _require_linear(make)


@pytest.mark.parametrize("make", [pytest.param(make, id=name) for name, make in growing_records()])
def test_an_output_record_is_read_in_linear_time(make: Callable[[int], Work]) -> None:
    _require_linear(make)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("make", [pytest.param(make, id=name) for name, make in CHECKED_LOGS.items()])
def test_a_log_is_checked_in_linear_time(make: Callable[[int], CheckedLog]) -> None:
    _require_linear(make, _SMALL_LOG, lambda log: log.size)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("log", GROWING_LOGS, ids=lambda log: log.name)
def test_a_step_is_taken_in_linear_time(log: GrowingLog) -> None:
    """Each run has a processor of its own, which has not taken these records yet."""
    _require_linear_in(log.step, log.small, "records")


@pytest.mark.sampled(4)
@pytest.mark.parametrize("claims", GROWING_CLAIMS, ids=lambda claims: claims.name)
def test_claims_of_ranges_are_counted_in_linear_time(claims: GrowingClaims) -> None:
    """Frontiers count them in a worker's event loop and in the driver of a query."""
    _require_linear_in(claims.work, claims.small, "ranges")


@pytest.mark.sampled(4)
@pytest.mark.parametrize("feeds", GROWING_FEEDS, ids=lambda feeds: feeds.name)
def test_all_feeds_are_looked_at_in_linear_time(feeds: GrowingFeeds) -> None:
    """The jobs agent looks at them in a worker's event loop, and so does the driver of a query."""
    _require_linear_in(feeds.work, feeds.small, "feeds")


def _require_linear_in(make: Callable[[int], Work], small: int, what: str) -> None:
    shorter = longer = float("inf")
    with _no_collection():
        for _ in range(_RUNS):
            shorter = min(shorter, _seconds(make(small)))
            longer = min(longer, _seconds(make(small * _STEP)))
            if not _is_steep(longer, shorter):
                return
    pytest.fail(f"{shorter:.3f} s for {small} {what}, {longer:.3f} s for {small * _STEP}")

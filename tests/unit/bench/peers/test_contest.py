"""How the figures of a round and of all rounds are made."""

from __future__ import annotations

import pytest

from bench.peers.contest import COPY, KERNEL, PeerRound, Sample, results, round_of, samples_of_figures
from tidegate.errors import RetryError


def test_the_first_quarter_of_a_round_is_warm_up() -> None:
    stamps_s = [0.0] * 500 + [10.0 + number / 1_000 for number in range(1_501)]
    samples = [Sample(100, 1.0), Sample(600, 2.0), Sample(2_001, 2.7)]
    done = round_of("one", stamps_s, samples)
    assert done.rows == 2_001
    assert done.rows_per_s == pytest.approx(1_501 / 1.5)
    assert done.cpu_us_per_row == pytest.approx(0.7 / 1_401 * 1e6)


def test_processor_time_is_between_two_samples_even_if_all_came_at_once() -> None:
    assert samples_of_figures([Sample(10, 1.0), Sample(2_000, 2.0)]) == (Sample(10, 1.0), Sample(2_000, 2.0))
    alone = Sample(2_000, 2.0)
    assert samples_of_figures([alone]) == (alone, alone)


def test_a_round_of_few_rows_has_no_figures() -> None:
    with pytest.raises(RetryError, match="slow wrote only 12 rows"):
        round_of("slow", [1.0] * 12, [Sample(12, 1.0)])


def test_figures_are_medians_and_ratios_of_medians() -> None:
    ours = [PeerRound(100, rate, 4.0) for rate in (900.0, 1_000.0, 5_000.0)]
    theirs = [PeerRound(100, rate, cpu) for rate, cpu in ((100.0, 8.0), (10.0, 9.0), (200.0, 80.0))]
    copies = [PeerRound(100, 2_000.0, 1.0)]
    first, second, third = results({KERNEL: ours, "stock Faust": theirs, COPY: copies})
    assert (first.rows_per_s, first.tidegate_rate, first.over_copy) == (1_000.0, 1.0, 0.5)
    assert (second.rows_per_s, second.tidegate_rate, second.over_tidegate_cpu) == (100.0, 10.0, 2.25)
    assert second.over_copy == 0.05
    assert (third.rounds, third.over_copy) == (1, 1.0)

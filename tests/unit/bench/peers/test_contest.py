"""Tests the figures of a round and of all rounds."""

from __future__ import annotations

import pytest

from bench.peers.contest import COPY, KERNEL, PeerRound, results, round_of
from tidegate.errors import RetryError


def test_a_round_counts_from_when_all_rows_are_there_to_its_last_row() -> None:
    warm_up, cut_off = [1.0] * 500, [99.0]
    stamps_s = [*warm_up, *(10.0 + number / 1_000 for number in range(1, 1_501)), *cut_off]
    done = round_of("one", stamps_s, began_s=10.0, ended_s=30.0, cpu_s=0.75)
    assert done.rows == 1_500
    assert (done.rows_per_s, done.cpu_us_per_row) == pytest.approx((1_000.0, 500.0))


def test_a_round_of_few_rows_has_no_figures() -> None:
    with pytest.raises(RetryError, match="slow wrote only 12 rows"):
        round_of("slow", [2.0] * 12 + [0.5] * 9_000, began_s=1.0, ended_s=3.0, cpu_s=1.0)


def test_figures_are_medians_and_ratios_of_medians() -> None:
    ours = [PeerRound(100, rate, 4.0) for rate in (900.0, 1_000.0, 5_000.0)]
    theirs = [PeerRound(100, rate, cpu) for rate, cpu in ((100.0, 8.0), (10.0, 9.0), (200.0, 80.0))]
    copies = [PeerRound(100, 2_000.0, 1.0)]
    first, second, third = results({KERNEL: ours, "stock Faust": theirs, COPY: copies})
    assert (first.rows_per_s, first.tidegate_rate, first.over_copy) == (1_000.0, 1.0, 0.5)
    assert (second.rows_per_s, second.tidegate_rate, second.over_tidegate_cpu) == (100.0, 10.0, 2.25)
    assert second.over_copy == 0.05
    assert (third.rounds, third.over_copy) == (1, 1.0)

"""The step is measured over few and many ranges and feeds, with the kernel and without, over one log."""

from __future__ import annotations

import pytest

from bench import wide_steps


def test_each_number_of_ranges_is_measured_in_both_modes_and_the_feeds_over_the_fewest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(wide_steps, "_BEATS", 20)
    monkeypatch.setattr(wide_steps, "_ROWS", 20)
    costs = [*wide_steps.wide_costs(1, (5, 40), feeds=3)]
    assert [(cost.kernel, cost.ranges, cost.feeds) for cost in costs] == [
        (mode, *case) for case in ((5, 1), (40, 1), (5, 3)) for mode in ("off", "on")
    ]
    assert all(cost.heartbeat_us > 0 < cost.row_us for cost in costs)
    assert [cost.of_first for cost in costs[:2]] == [1.0, 1.0]
    assert costs[3].of_first == costs[3].row_us / costs[1].row_us

"""When a partition that is held gives up."""

from __future__ import annotations

import math
from typing import Final

from tidegate.changefeed.definition.feed import FeedId
from tidegate.worker.commit.hold_clock import HoldClock

_A: Final = FeedId("a")
_B: Final = FeedId("b")


class _Held:
    """A clock of 60 s, and the time."""

    def __init__(self) -> None:
        self.now = 100.0
        self.clock = HoldClock(60.0, lambda: self.now)

    def due(self, seconds: float, *feeds: FeedId) -> float:
        """When it is due after these feeds held it ``seconds`` later."""
        self.now += seconds
        self.clock.look(frozenset(feeds))
        return self.clock.due


def test_nobody_gives_up_who_is_not_held() -> None:
    held = _Held()
    assert held.clock.due == math.inf
    assert held.due(1) == math.inf
    held.due(1, _A)
    assert held.due(1) == math.inf


def test_the_time_runs_from_the_first_look_at_a_feed_that_holds() -> None:
    held = _Held()
    assert [held.due(5, _A), held.due(50, _A), held.due(1, _A, _B)] == [165.0, 165.0, 165.0]


def test_the_time_begins_anew_when_a_feed_lets_go() -> None:
    held = _Held()
    held.due(0, _A, _B)
    assert held.due(40, _B) == 200.0
    assert held.due(10, _A) == 210.0, "one for another"

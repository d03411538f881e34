"""Workers that are told to stop, and do so in order: their plan is drawn independently, so that nothing else
of a seed's plan changes.

How they stop is their own code (``app.application.stop_in_order``): they finish what is in flight, and leave
the group. They may be killed or paused meanwhile, as at any other time.
"""

from __future__ import annotations

import enum
from random import Random
from typing import Final, NamedTuple

#: Of the stops, the share that all workers get at the same time, and the share that come while sinks stand
#: still.
_ALL: Final = 0.2
_WITH_SINKS: Final = 0.4
_SOON_S: Final = 0.5


class Amid(enum.Enum):
    """The moment at which a worker is told to stop."""

    ANYTHING = "at any moment"
    RELEASE = "soon after a rebalance began: while partitions are released, or handed out"
    ASSIGNMENT = "just when a rebalance ends, a moment before or after partitions are handed out"


class PlannedStop(NamedTuple):
    """A worker, or ``all``, is told to stop at a time; with a rebalance, ``later_s`` after the moment of the
    rebalance that ``amid`` names.

    With ``sinks_before`` all sinks stand still, from so many seconds before until after a drain has given up
    what waits for them: so batches are in flight then, and feeds are detached or spooled.
    """

    at: float
    amid: Amid
    later_s: float
    all: bool
    sinks_before: float | None


def draw_stops(seed: int, share: float, seconds: float) -> tuple[PlannedStop, ...]:
    """Return the stops of a run of so many seconds. Only this share of the seeds has any."""
    rng = Random(f"{seed}:stops")
    if rng.random() >= share:
        return ()
    return tuple(_stop(rng, seconds) for _ in range(rng.choice((1, 2, 4))))


def _stop(rng: Random, seconds: float) -> PlannedStop:
    at, amid = seconds * rng.uniform(0.1, 1.0), rng.choice(list(Amid))
    later_s = rng.random() * (_SOON_S if amid is Amid.RELEASE else rng.choice((0.001, 0.01, 0.1)))
    every, sinks_before = rng.random() < _ALL, rng.choice((0.1, 1.5)) * rng.random()
    return PlannedStop(at, amid, later_s, every, sinks_before if rng.random() < _WITH_SINKS else None)

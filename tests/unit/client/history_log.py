"""A log of a simulated store, its catalog, and a feed over it."""

from __future__ import annotations

from functools import cache

from sim.options import StoreOptions
from sim.plan import OutcomeMix
from sim.workloads.random import RandomOptions, RandomTransactions
from tests.feeds import activation
from tests.logs import SimulatedLog, simulate
from tidegate.changefeed.definition.options import FeedOptions
from tidegate.changefeed.lifecycle.control import Activate
from tidegate.rows import Catalog


@cache
def log() -> SimulatedLog:
    """A log of random tables with restarts, aborts, deletions, and deletions of nothing."""
    options = RandomOptions(keys=6, outcomes=OutcomeMix(restart=0.2, abort=0.1))
    store = StoreOptions(partitions=2, closed_lag_ms=100, heartbeat_ms=100)
    return simulate(RandomTransactions(options, seed=7), store, seed=7, transactions=60)


def catalog() -> Catalog:
    known = Catalog()
    for table in log().tables:
        known.add(table)
    return known


def feed(options: FeedOptions) -> Activate:
    times = sorted(version.timestamp for version in log().history)
    return activation(log().tables, options, start=times[len(times) // 3])

"""Random histories as cases: tables of random types in a store whose ranges split and merge all the time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random
from typing import Final

from sim.workloads.random import RandomOptions, RandomTransactions
from tests.contract.case import PARTITIONS, BuiltCase, Case, World, build
from tests.contract.catalogue import BUILT
from tests.feeds import WITH_MARKERS
from tests.logs import EVENTFUL_MIX, eventful_store, simulate
from tidegate.hlc import ZERO

_TRANSACTIONS: Final = 60


def histories(first: int, count: int) -> Sequence[BuiltCase]:
    """The histories of the seeds from ``first`` on, each run by itself on the reference engine.

    They can share a log: ranges, tables and topics of each are its own.
    """
    return BUILT.value(
        f"histories-{first}-{count}",
        lambda: [
            build(Case(f"history {seed}", _history(seed)), seed - first)
            for seed in range(first, first + count)
        ],
    )


def _history(seed: int) -> Callable[[World], None]:
    def write(world: World) -> None:
        """A feed on everything, and one on the last table from somewhere in its history on."""
        rng = Random(f"{seed}:history")
        workload = RandomTransactions(
            RandomOptions(
                tables=rng.randint(1, 3),
                ranges=rng.randint(1, 4),
                keys=rng.randint(5, 30),
                outcomes=EVENTFUL_MIX,
                first_table_id=world.first_table_id,
            ),
            seed,
        )
        store = replace(
            eventful_store(PARTITIONS),
            first_range_id=world.first_range_id,
            split_every_ms=rng.choice((200, 500)),
            merge_every_ms=rng.choice((0, 300, 700)),
            move_lease_every_ms=rng.choice((0, 500)),
        )
        log = simulate(workload, store, seed=seed, transactions=_TRANSACTIONS)
        world.add(log.partitions)
        times = sorted(version.timestamp for version in log.history)
        world.feed_on(log.tables)
        start = rng.choice(times) if times else ZERO
        world.feed_on(log.tables[-1:], options=replace(WITH_MARKERS, diff=True), start=start, topics="late-")

    return write

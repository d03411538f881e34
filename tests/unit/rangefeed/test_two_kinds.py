"""One log through both kinds of feeds: `RangeFeed` as the source has it, and a worker's state of a range.

They share the resolver and not the way to it (docs/design/2026-11-22-two-kinds-of-feeds.md), so what an op
commits and what is resolved by it is compared record by record.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import pytest

from sim.options import StoreOptions
from sim.workloads.bank import Bank, BankOptions
from tests.logs import EVENTFUL_MIX, eventful_store, simulate
from tidegate.hlc import Timestamp
from tidegate.raftlog.decode import decode_entry
from tidegate.raftlog.entry import Command, Heartbeat, RangeEnd, RangeId, Snapshot
from tidegate.rangefeed.event import CheckpointEvent, ValueEvent
from tidegate.rangefeed.log_feeds import LogFeeds
from tidegate.rangefeed.registration import FeedRequest
from tidegate.ranges.range_log import apply_entry
from tidegate.ranges.range_state import RangeState
from tidegate.spans import EVERYTHING

_QUIET = eventful_store(2)
_MOVING = replace(_QUIET, split_every_ms=150, merge_every_ms=200, move_lease_every_ms=300)


class Taken(NamedTuple):
    """The result of a record: committed versions, and how far its range is resolved; ``None`` for no word."""

    values: list[tuple[bytes, Timestamp, bytes, bytes | None]]
    resolved: Timestamp | None


def both(options: StoreOptions, seed: int) -> Iterator[tuple[RangeId, Taken, Taken]]:
    """Yield, for each record of a simulated log that is about a range, what either kind makes of it."""
    bank = Bank(BankOptions(accounts=20, ranges=4, outcomes=EVENTFUL_MIX), seed=seed)
    feeds = LogFeeds(FeedRequest(EVERYTHING, with_diff=True))
    states: dict[RangeId, RangeState] = {}
    for number, partition in enumerate(simulate(bank, options, seed=seed, transactions=60).partitions):
        for record in partition:
            entry = decode_entry(record.key, record.value)
            if not isinstance(entry, Command | Heartbeat | Snapshot | RangeEnd):
                continue
            state = states.setdefault(entry.range_id, RangeState(entry.range_id))
            versions = apply_entry(state, entry)
            events = [found.event for found in feeds.read_record(number, record.key, record.value)]
            checkpoints = [event.resolved for event in events if isinstance(event, CheckpointEvent)]
            values = [
                (event.key, event.timestamp, event.value, event.prev_value)
                for event in events
                if isinstance(event, ValueEvent)
            ]
            yield (
                entry.range_id,
                Taken(values, checkpoints[-1] if checkpoints else None),
                Taken(
                    [(v.key, v.timestamp, v.value, v.prev_value or None) for v in versions], state.resolved
                ),
            )


@pytest.mark.parametrize("options", [_QUIET, _MOVING], ids=["quiet", "moving"])
@pytest.mark.parametrize("seed", range(3))
def test_each_record_commits_the_same_versions_in_the_same_order(options: StoreOptions, seed: int) -> None:
    compared = 0
    for range_id, feed, worker in both(options, seed):
        assert feed.values == worker.values, f"seed {seed}, range {range_id}"
        compared += len(feed.values)
    assert compared > 100, f"seed {seed}"


@pytest.mark.parametrize("seed", range(3))
def test_each_record_resolves_a_range_as_far(seed: int) -> None:
    shown: dict[RangeId, Timestamp] = {}
    rises = 0
    for range_id, feed, worker in both(_QUIET, seed):
        if feed.resolved is not None:
            shown[range_id] = feed.resolved
            rises += 1
        if range_id in shown:
            assert shown[range_id] == worker.resolved, f"seed {seed}, range {range_id}"
    assert rises > 20, f"seed {seed}"

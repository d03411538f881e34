"""Ranges that split, merge, move and break under load, on a real broker: the audit passes."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

import pytest

from stack.kafka import KafkaBroker
from tests.e2e.live_load import LiveLoad, live_load
from tests.e2e.shared_partitions import wait_for_all
from tests.e2e.worker_process import WorkerProcess
from tidegate.processor.state.exchange_codec import decode_exchange
from tidegate.raftlog.entry import RaftIndex, RangeId, Snapshot
from tidegate.raftlog.request import Scan, decode_request
from tidegate.ranges.handoff import HandOff
from tidegate.verify import Verdict

pytestmark = [pytest.mark.broker, pytest.mark.slow]

_PHASE_S: Final = 6.0
_MOVES: Final = {"split_every_ms": 1_000, "merge_every_ms": 1_000, "move_lease_every_ms": 500}
_HOLES: Final = {"skip_every_ms": 1_500, "opless_every_ms": 1_500}


@pytest.mark.always
def test_splits_and_merges_over_two_workers_one_of_them_killed(
    broker: KafkaBroker, topic_prefix: str, tmp_path: Path
) -> None:
    with live_load(broker.bootstrap, topic_prefix, tmp_path, seed=4, store=_MOVES) as load:
        killed, other = load.start_worker("w0"), load.start_worker("w1")
        load.create_feed()
        _wait_until_shared(killed, other)
        _let_pass(load)
        killed.kill()
        again = load.start_worker("w0")
        _wait_until_shared(again, other)
        _let_pass(load)
        report = load.finish()
        assert report.verdict is Verdict.PASSED, str(report)
        assert again.stop() == other.stop() == 0
        assert "incident" not in killed.text + again.text + other.text
        exchanges = map(decode_exchange, load.values_of(f"{load.app_id}-handoff"))
        handed_off = [message for message in exchanges if isinstance(message, HandOff)]
        assert handed_off, "no keys went from one partition to another"
        first_seen = _seen_but_not_born(load)
        cut = [each.claim for each in handed_off if not each.complete]
        assert all(claim.last_index == first_seen.get(claim.parent) for claim in cut), (
            "a range was quarantined"
        )


def test_ranges_heal_from_holes_while_they_split_and_merge(
    broker: KafkaBroker, topic_prefix: str, tmp_path: Path
) -> None:
    with live_load(broker.bootstrap, topic_prefix, tmp_path, seed=5, store=_MOVES | _HOLES) as load:
        worker = load.start_worker("w0")
        load.create_feed()
        _let_pass(load)
        report = load.finish()
        assert report.verdict is Verdict.PASSED, str(report)
        assert worker.stop() == 0, worker.text
        requests = map(decode_request, load.values_of(f"{load.prefix}requests"))
        assert any(isinstance(request, Scan) for request in requests), "no hole was met since the feed began"


def _wait_until_shared(*workers: WorkerProcess) -> None:
    for worker in workers:
        worker.wait_for("the worker starts")
    wait_for_all(*workers)


def _seen_but_not_born(load: LiveLoad) -> dict[RangeId, RaftIndex]:
    """The index at which each range was seen first, but for ranges that are born there.

    A range may have split just there, before anybody saw it. So its hand-off at that index is complete up to
    nothing, also where it is merged away before its first command.
    """
    first: dict[RangeId, Snapshot] = {}
    for entry in load.log:
        if isinstance(entry, Snapshot):
            first.setdefault(entry.range_id, entry)
    return {range_id: seen.raft_index for range_id, seen in first.items() if not _is_born_by(seen)}


def _is_born_by(snapshot: Snapshot) -> bool:
    """Whether the snapshot's range goes on from others, and not from itself."""
    parents = {parent.range_id for parent in snapshot.parents}
    return bool(parents) and snapshot.range_id not in parents


def _let_pass(load: LiveLoad) -> None:
    """A while of load: what happens meanwhile is up to the store."""
    time.sleep(_PHASE_S)
    load.store.require_running()

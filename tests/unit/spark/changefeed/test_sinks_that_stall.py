"""Sinks stall, drivers die, tasks run twice: no row is lost, and no marker lies
(docs/protocols/spark-sinks.md, S1 to S4)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import SystemRandom
from typing import Final

import pytest

import tidegate.spark.changefeed.batch_driver
from tests.simulation.feed_judge import BrokenPromise
from tests.unit.spark.driven_query import DrivenQuery
from tidegate.changefeed.definition.feed import FeedId
from tidegate.errors import FeedError
from tidegate.processor.batch import LogRecord, OutputRecord, StepResult
from tidegate.processor.processor import PartitionProcessor
from tidegate.spark.changefeed.task.partition_task import PartitionTask

_AWAY: Final = FeedId("away")
_FRESH: Final = SystemRandom()
_BATCHES: Final = 15
_MANY_BATCHES: Final = 30  # of one test of `make soak`
_GROWS: Final = {"away": 0.02, "scan": 0.02}  # of all rows of these feeds


def _hold(seed: int, directory: Path, patch: pytest.MonkeyPatch, batches: int = _BATCHES) -> DrivenQuery:
    run = DrivenQuery(seed, directory, patch)
    try:
        run.run(batches)
    except BrokenPromise as broken:
        pytest.fail(f"DrivenQuery({seed}).run({batches}): {broken}")
    return run


@pytest.mark.long
def test_a_feed_whose_sink_stalls_is_given_everything_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = _hold(2, tmp_path, monkeypatch)
    assert min(run.stalls, run.deaths, run.hand_offs) > 0, "nothing happened"


@pytest.mark.soak
def test_it_is_for_a_fresh_seed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _hold(_FRESH.getrandbits(32), tmp_path, monkeypatch, _MANY_BATCHES)


def _fail_in_rounds(seed: int, directory: Path, patch: pytest.MonkeyPatch, batches: int = _BATCHES) -> int:
    """Let a feed fail in rounds of several steps, behind one whose checkpoint names it, while its sink takes
    no row; returns how many such checkpoints were withdrawn when the sink had stalled.
    """
    withdrawn: list[StepResult] = []
    step, detach = PartitionTask.step, PartitionProcessor.detach

    def fail_at_times(task: PartitionTask, records: list[LogRecord]) -> None:
        processor = task._processor
        fails = run.clients.room == 0 and any(map(_names_it, task._answers.steps))
        if fails and processor.is_active(_AWAY) and _AWAY not in processor.detached:
            processor._feeds.fail(_AWAY, FeedError("a row that cannot be written"))
        step(task, records)

    def note_what_is_withdrawn(
        processor: PartitionProcessor, feed_id: FeedId, steps: Sequence[StepResult]
    ) -> StepResult:
        has_failed = feed_id == _AWAY and not processor.is_active(_AWAY)
        named = [each for each in steps if has_failed and _names_it(each)]
        result = detach(processor, feed_id, steps)
        withdrawn.extend(each for each in named if not _names_it(each))
        return result

    patch.setattr(PartitionTask, "step", fail_at_times)
    patch.setattr(PartitionProcessor, "detach", note_what_is_withdrawn)
    run = DrivenQuery(seed, directory, patch)
    run.records_at_once = 2
    try:
        run.run(batches, drain=False)
    except BrokenPromise as broken:
        pytest.fail(f"DrivenQuery({seed}), failing: {broken}")
    return len(withdrawn)


def _names_it(step: StepResult) -> bool:
    return step.checkpoint is not None and any(feed.feed_id == _AWAY for feed in step.checkpoint.feeds)


@pytest.mark.long
def test_a_feed_that_fails_in_the_round_in_which_its_sink_stalls_is_named_by_no_marker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed in range(28, 36):
        (directory := tmp_path / str(seed)).mkdir()
        with monkeypatch.context() as patch:
            if _fail_in_rounds(seed, directory, patch):
                return
    pytest.fail("nothing happened")


def _refuse(seed: int, directory: Path, patch: pytest.MonkeyPatch, batches: int = _BATCHES) -> set[str]:
    """Let the away cluster refuse rows; returns why feeds failed, which the other one's does not."""
    run = DrivenQuery(seed, directory, patch)
    run.clients.grows = _GROWS
    try:
        run.run(batches)
    except BrokenPromise as broken:
        pytest.fail(f"DrivenQuery({seed}), refusing: {broken}")
    assert "home" not in run.feeds.failed
    return set(run.feeds.failed.values())


@pytest.mark.long
def test_a_feed_of_which_a_row_is_refused_fails_alone_and_no_marker_covers_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reasons = _refuse(31, tmp_path, monkeypatch)
    assert reasons, "nothing happened"
    assert all("max.message.bytes" in reason for reason in reasons)


def _doubt(seed: int, directory: Path, patch: pytest.MonkeyPatch) -> DrivenQuery:
    """Let both clusters answer with errors that pass."""
    patch.setattr(tidegate.spark.changefeed.batch_driver, "_DOUBT_S", 0.0)
    run = DrivenQuery(seed, directory, patch)
    run.clients.doubts = 0.003
    try:
        run.run(_BATCHES)
    except BrokenPromise as broken:
        pytest.fail(f"DrivenQuery({seed}), doubting: {broken}")
    assert run.clients.doubted, "nothing happened"
    return run


@pytest.mark.long
def test_rows_that_brokers_doubt_for_a_while_are_delivered_and_fail_no_feed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not _doubt(31, tmp_path, monkeypatch).feeds.failed


@pytest.mark.long
def test_a_driver_that_takes_a_doubt_for_a_refusal_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tidegate.spark.changefeed.batch_driver, "PRODUCERS", 1)
    assert _doubt(31, tmp_path, monkeypatch).feeds.failed


@pytest.mark.long
def test_a_refused_row_that_is_taken_for_delivered_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def send(task: PartitionTask, feed_id: FeedId, rows: Sequence[OutputRecord]) -> None:
        if feed_id not in task._round.refused.get(task._partition, {}):
            deliver(task, feed_id, rows)

    deliver = PartitionTask._send
    monkeypatch.setattr(PartitionTask, "_fail_refused", lambda _: None)
    monkeypatch.setattr(PartitionTask, "_send", send)
    run = DrivenQuery(31, tmp_path, monkeypatch)
    run.clients.grows = _GROWS
    with pytest.raises(BrokenPromise):
        run.run(_BATCHES)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(1_000, 1_100))
def test_it_is_for_many(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _hold(seed, tmp_path, monkeypatch, _MANY_BATCHES)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(20, 40))
def test_no_marker_names_a_failed_feed_for_many(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _fail_in_rounds(seed, tmp_path, monkeypatch, _MANY_BATCHES)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(30, 50))
def test_refused_rows_fail_their_feed_alone_for_many(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reasons = _refuse(seed, tmp_path, monkeypatch, _MANY_BATCHES)
    assert all("max.message.bytes" in reason for reason in reasons)

"""Feeds that start in the past or with a scan, on a real broker, beside a store that writes on."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from typing import Final

import pytest

from stack.kafka import KafkaBroker
from tests.e2e.live_load import LiveLoad, live_load
from tidegate.changefeed.definition.feed import FeedState
from tidegate.hlc import NANOS_PER_SECOND, Timestamp
from tidegate.raftlog.entry import Command, CommitIntent, WriteValue
from tidegate.verify import Verdict

pytestmark = [pytest.mark.broker, pytest.mark.slow]

_MOVES: Final = {"split_every_ms": 1_000, "merge_every_ms": 1_000, "move_lease_every_ms": 500}
_ROWS_PER_S: Final = 300
#: Scans come in many batches.
_SLOW_SCANS: Final = {"scan_chunk_rows": 50, "scan_gap_ms": 200}


@pytest.mark.always
def test_a_scan_and_every_change_above_it(broker: KafkaBroker, topic_prefix: str, tmp_path: Path) -> None:
    """The latest of each key at the start, and every version above: the audit holds the rows to just that."""
    with live_load(
        broker.bootstrap, topic_prefix, tmp_path, seed=21, store=_MOVES, rows_per_s=_ROWS_PER_S
    ) as load:
        worker = load.start_worker("w0")
        _let_pass(load, 4)
        load.create_feed("updated, resolved")
        _let_pass(load, 4)
        report = load.finish()
        assert report.verdict is Verdict.PASSED, str(report)
        start = _start(load)
        older = [version for version in load.history if version.timestamp <= start]
        assert older, "the feed had no past"
        assert report.counts.expected < len(list(load.history)), "every version of the past is expected"
        assert report.counts.expected > report.counts.keys
        assert worker.stop() == 0, worker.text
        assert "incident" not in worker.text


def test_what_was_committed_above_a_cursor(broker: KafkaBroker, topic_prefix: str, tmp_path: Path) -> None:
    with live_load(
        broker.bootstrap, topic_prefix, tmp_path, seed=22, store=_MOVES, rows_per_s=_ROWS_PER_S
    ) as load:
        worker = load.start_worker("w0")
        _let_pass(load, 2)
        cursor = Timestamp(time.time_ns(), 5)
        load.wait_until(
            lambda: _committed(load, cursor, _a_second_ago()) >= _ROWS_PER_S, "versions above the cursor"
        )
        before = _a_second_ago()
        load.create_feed(f"updated, resolved, cursor='{cursor}'")
        assert _start(load) == cursor
        _let_pass(load, 3)
        report = load.finish()
        assert report.verdict is Verdict.PASSED, str(report)
        caught_up = [v for v in load.history if cursor < v.timestamp < before]
        assert caught_up, "nothing had been committed between the cursor and the feed"
        assert worker.stop() == 0, worker.text
        assert "incident" not in worker.text


@pytest.mark.soak
def test_a_worker_that_dies_amid_a_scan(broker: KafkaBroker, topic_prefix: str, tmp_path: Path) -> None:
    """Its successor goes on where chunks were committed: it repeats less than what was written."""
    with live_load(
        broker.bootstrap, topic_prefix, tmp_path, seed=23, store=_SLOW_SCANS, rows_per_s=_ROWS_PER_S
    ) as load:
        dies = ("-m", "tests.e2e.crashing_worker", "after-the-rows", "5")
        doomed = load.start_worker("w0", dies, instance_id="w0")
        load.define_feed("updated, resolved")
        assert doomed.wait(120) == -signal.SIGKILL, doomed.text
        assert load.feed.high_water is None, "the scan was done before"
        written = len(load.output())
        successor = load.start_worker("w0", instance_id="w0")
        load.follow_feed()
        report = load.finish()
        assert report.verdict is Verdict.PASSED, str(report)
        assert 0 < report.counts.duplicates < written, str(report)
        assert successor.stop() == 0, successor.text


@pytest.mark.soak
def test_a_feed_that_is_a_scan_only_succeeds_whoever_dies_between_the_steps(
    broker: KafkaBroker, topic_prefix: str, tmp_path: Path
) -> None:
    """Each gap between two of the steps Z2 to Z6 of docs/protocols/initial-scans.md, one worker after the
    other."""
    with live_load(
        broker.bootstrap, topic_prefix, tmp_path, seed=24, store=_SLOW_SCANS, rows_per_s=_ROWS_PER_S
    ) as load:
        first = load.start_worker("w0", instance_id="w0")
        first.wait_for("partition restored")
        load.define_feed("initial_scan='only'")
        first.kill()
        for point, nth in (
            ("before-the-progress", 1),
            ("before-the-success", 1),
            ("before-the-removal", 1),
            ("before-forgetting", 2),
        ):
            dies = ("-m", "tests.e2e.crashing_worker", point, str(nth))
            doomed = load.start_worker("w0", dies, instance_id="w0")
            assert doomed.wait(120) == -signal.SIGKILL, (point, doomed.text)
            stored = point in ("before-the-removal", "before-forgetting")
            assert (load.feed.status is FeedState.SUCCEEDED) is stored, (point, load.feed)
            assert (load.feed.high_water is None) is (point == "before-the-progress")
        last = load.start_worker("w0", instance_id="w0")
        _expect_the_scan(load)
        _expect_free_topics(load)
        assert last.stop() == 0, last.text


def test_a_feed_that_is_a_scan_only_succeeds_and_gives_its_topics_back(
    broker: KafkaBroker, topic_prefix: str, tmp_path: Path
) -> None:
    with live_load(
        broker.bootstrap, topic_prefix, tmp_path, seed=25, store=_MOVES, rows_per_s=_ROWS_PER_S
    ) as load:
        worker = load.start_worker("w0")
        _let_pass(load, 4)
        load.define_feed("initial_scan='only'")
        load.wait_until(lambda: load.feed.status is FeedState.SUCCEEDED, "the scan to be done")
        feeds = worker.ask("/status")["feeds"]
        worker.wait_until(lambda: worker.ask("/status")["feeds"] == [], f"the frontier to let go of {feeds}")
        _expect_the_scan(load)
        _expect_free_topics(load)
        assert worker.stop() == 0, worker.text
        assert "incident" not in worker.text


def _expect_the_scan(load: LiveLoad) -> None:
    """The topics hold the newest version at the start of each key, and nothing else."""
    load.end_store()
    report = load.audit()
    assert report.verdict is not Verdict.VIOLATED, str(report)
    assert load.feed.high_water == _start(load)
    written = {(record.topic, record.key, record.value) for record in load.output()}
    expected = {(version.topic, version.key, version.value) for version in load.expected()}
    assert expected, "the store was empty"
    assert written == expected


def _expect_free_topics(load: LiveLoad) -> None:
    """Another feed may have the topics."""
    load.create_feed("initial_scan='no'")
    assert load.feed.status is FeedState.RUNNING


def _a_second_ago() -> Timestamp:
    return Timestamp(time.time_ns() - NANOS_PER_SECOND)


def _committed(load: LiveLoad, above: Timestamp, below: Timestamp) -> int:
    """The number of versions between the two that the log has."""
    ops = (op for entry in load.log if isinstance(entry, Command) for op in entry.ops or ())
    return sum(isinstance(op, WriteValue | CommitIntent) and above < op.timestamp < below for op in ops)


def _start(load: LiveLoad) -> Timestamp:
    state = load.feed.current_state
    assert state is not None
    assert state.start is not None
    return state.start


def _let_pass(load: LiveLoad, seconds: float) -> None:
    """A while of load: what happens meanwhile is up to the store."""
    time.sleep(seconds)
    load.store.require_running()

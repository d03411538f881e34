"""A live feed that goes from workers to Spark and back, under load, with splits
(docs/protocols/hand-over.md)."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final

import pytest

from stack.kafka import KafkaBroker
from tests.e2e.live_load import LiveLoad, live_load
from tests.e2e.spark_process import SparkProcess
from tidegate.changefeed.definition.feed import Engine, FeedState
from tidegate.verify import Verdict

pytestmark = [pytest.mark.broker, pytest.mark.slow, pytest.mark.together("spark")]

_SEED: Final = 17
#: Each split is a claim and a hand-off in later rounds, and one more range to scan.
_FEW_SPLITS: Final = 15_000
_MANY_SPLITS: Final = 2_000


def loaded(
    broker: KafkaBroker, prefix: str, directory: Path, split_every_ms: int = _MANY_SPLITS
) -> AbstractContextManager[LiveLoad]:
    print("seed", _SEED)
    splits = {"split_every_ms": split_every_ms}
    return live_load(broker.bootstrap, prefix, directory, seed=_SEED, store=splits, rows_per_s=200)


@pytest.mark.soak  # the simulation of workers moves feeds in `make test`
@pytest.mark.timeout(1_500)
@pytest.mark.parametrize(
    ("rounds", "split_every_ms", "killed"),
    [(1, _FEW_SPLITS, False), (4, _MANY_SPLITS, True)],
)
def test_a_feed_that_moves_to_spark_and_back_loses_and_invents_nothing(
    broker: KafkaBroker, topic_prefix: str, tmp_path: Path, rounds: int, split_every_ms: int, killed: bool
) -> None:
    """Where ``killed`` is asked for the driver dies each time while it has the feed."""
    checkpoint = tmp_path / "checkpoint"
    with loaded(broker, topic_prefix, tmp_path, split_every_ms) as load:
        worker = load.start_worker("w0")
        load.create_feed()
        for _ in range(rounds):
            if killed:
                with SparkProcess(load, checkpoint) as driver:
                    load.move_feed(Engine.SPARK)
                    driver.kill()
            with SparkProcess(load, checkpoint) as driver:
                if not killed:
                    load.move_feed(Engine.SPARK)
                load.wait_past_now("a marker by Spark")
                load.move_feed(Engine.WORKERS)
                load.wait_past_now("a marker by the worker")
                assert driver.stop() == 0, driver.text[-5_000:]
                assert "Traceback" not in driver.text
        report = load.finish()
        assert report.verdict is Verdict.PASSED, str(report)
        assert report.counts.markers > 0
        assert worker.stop() == 0, worker.text


def test_a_worker_lets_go_of_a_feed_and_takes_it_back(
    broker: KafkaBroker, topic_prefix: str, tmp_path: Path
) -> None:
    """Nobody has it meanwhile."""
    with loaded(broker, topic_prefix, tmp_path) as load:
        worker = load.start_worker("w0")
        load.create_feed("updated, resolved, initial_scan='yes'")
        load.ask_for_move(Engine.SPARK)
        worker.wait_until(lambda: not worker.ask("/status")["feeds"], "the worker to let go of the feed")
        assert load.feed.status is FeedState.PENDING
        load.move_feed(Engine.WORKERS)
        load.wait_past_now("a marker in the third epoch")
        report = load.finish()
        assert report.verdict is Verdict.PASSED, str(report)
        assert worker.stop() == 0, worker.text

"""A Spark query that follows a live log of many partitions for long: nothing of it grows."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

import pytest

from bench.live_tail import FollowedLog, followed_log
from bench.spark_query import memory_mib
from bench.topics import BenchTopics
from stack.kafka import KafkaBroker
from tests.spark_session import running_session
from tidegate.spark.platform.kafka_source import consumers_for

pytestmark = pytest.mark.broker

#: How long the query runs, in minutes, behind its first batches.
MINUTES: Final = float(os.environ.get("TIDEGATE_TAIL_MINUTES", "30"))
_PARTITIONS: Final = 64
_SAMPLES: Final = 60
#: Chains of small states have at most 8 deltas, and twice that waits to be removed.
_MOST_FILES: Final = 40
#: By so much the memory of a process may be larger in the last third than in the second.
_GROWTH: Final = 1.25
_SPARE_MIB: Final = 64


class _Sample(NamedTuple):
    """The figures of one moment; memory is in MiB, of all Python workers together."""

    batches: int
    files: int
    driver: float
    java: float
    python: float
    lag_s: float


def _look(followed: FollowedLog) -> _Sample:
    memory = memory_mib()
    progress = followed.query.lastProgress
    batches = 0 if progress is None else progress["batchId"] - followed.begun + 1
    driver, java, python = memory["driver"], memory["spark"], memory["python"]
    return _Sample(batches, followed.feed.state_files, driver, java, python, followed.lag_s)


@pytest.mark.soak
@pytest.mark.timeout(MINUTES * 60 + 900)
def test_a_query_over_64_partitions_stays_as_it_is(
    broker: KafkaBroker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """State files, memory of driver, Java and Python workers, and marker lag stay flat."""
    samples: list[_Sample] = []
    with (
        running_session("tail", consumers_for(_PARTITIONS)) as session,
        closing(BenchTopics(broker.bootstrap)) as topics,
        followed_log(session, topics, tmp_path, _PARTITIONS, seed=1) as followed,
    ):
        begun = time.monotonic()
        for number in range(1, _SAMPLES + 1):
            rest = begun + MINUTES * 60 * number / _SAMPLES - time.monotonic()
            assert not followed.query.awaitTermination(max(1, int(rest)))
            samples.append(_look(followed))
        states = followed.states
    second, last = samples[_SAMPLES // 3 : 2 * _SAMPLES // 3], samples[2 * _SAMPLES // 3 :]
    with capsys.disabled():
        print(f"\n{_PARTITIONS} log partitions, {MINUTES:g} minutes, states: {states}")
        for name, part in (("second third", second), ("last third", last)):
            print(f"{name}: {_figures(part)}")
    assert last[-1].batches > second[0].batches, "it went on"
    assert max(each.files for each in samples) <= _MOST_FILES
    for column in ("driver", "java", "python"):
        before, after = (max(getattr(each, column) for each in part) for part in (second, last))
        assert after <= before * _GROWTH + _SPARE_MIB, column
    before, after = (median(each.lag_s for each in part) for part in (second, last))
    assert after <= 2 * before + 5, "marker lag"


def _figures(samples: Sequence[_Sample]) -> str:
    return ", ".join(
        f"{name} {min(values):.0f} to {max(values):.0f}"
        for name, values in zip(_Sample._fields, zip(*samples, strict=True), strict=True)
    )

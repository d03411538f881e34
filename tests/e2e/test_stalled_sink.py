"""One sink stands still under load: its feed is detached and comes back, and no other one notices."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Final

import pytest

from stack.kafka import KafkaBroker
from tests.e2e.live_feed import LiveFeed
from tests.e2e.live_load import MANY_ROWS_PER_S, PARTITIONS, LiveLoad, live_load
from tests.e2e.worker_process import WorkerProcess
from tests.shared_broker import PATIENT
from tidegate.verify import Verdict

pytestmark = [pytest.mark.broker, pytest.mark.slow, pytest.mark.usefixtures("others_allowed")]

_STALL_MS: Final = 1_000
_GOES_ON_S: Final = 5.0  # of markers, while the other sink stands still
_TINY_BYTES: Final = 100_000


@pytest.fixture
def other() -> Iterator[KafkaBroker]:
    """The cluster that will stand still."""
    with KafkaBroker(settings=PATIENT) as running:
        yield running
        running.resume()


class _Two:
    """A load with a feed at home, which is seen in the worker's report, and one in the other cluster."""

    def __init__(self, load: LiveLoad, home: KafkaBroker, other: KafkaBroker, history: Path) -> None:
        self.load = load
        self.other = other
        self._history = history
        load.create_feed()
        self.away = LiveFeed(load, home.bootstrap, other.bootstrap)

    def until(self, worker: WorkerProcess, what: str, true: Callable[[list[str]], bool]) -> None:
        """Wait for states of the other cluster's feed, one of each partition."""
        worker.wait_until(lambda: true([row["state"] for row in self.deliveries(worker)]), what, 120)

    def deliveries(self, worker: WorkerProcess) -> list[dict[str, Any]]:
        """Return what the worker says of that feed."""
        return [row for row in worker.ask("/status")["deliveries"] if row["feed"] == self.away.id]

    def until_live(self, worker: WorkerProcess) -> None:
        """Wait until that feed is live in every partition."""
        self.until(worker, "the feed to be live", lambda states: states == ["live"] * PARTITIONS)

    def goes_on(self, worker: WorkerProcess) -> None:
        """The feed at home goes on, while no marker comes out of the other cluster."""
        stands = self.away.marker(worker)
        goal = time.time() + _GOES_ON_S
        worker.wait_until(lambda: self._home_s(worker) >= goal, "markers that go on", 120)
        assert self.away.marker(worker) == stands, "a marker came out of a cluster that stands still"

    def finish(self, worker: WorkerProcess) -> None:
        """Both audits pass."""
        for report in (self.load.finish(), self.away.finish(worker, self._history)):
            assert report.verdict is Verdict.PASSED, str(report)
        assert worker.stop() == 0, worker.text

    def _home_s(self, worker: WorkerProcess) -> float:
        (feed,) = (row for row in worker.ask("/status")["feeds"] if row["feed"] != self.away.id)
        return time.time() - float(feed["resolved_lag_ms"]) / 1_000


def _loaded(broker: KafkaBroker, prefix: str, directory: Path, seed: int) -> AbstractContextManager[LiveLoad]:
    """Return a load of so many rows that a spool is soon full."""
    return live_load(broker.bootstrap, prefix, directory, seed, rows_per_s=MANY_ROWS_PER_S)


@pytest.mark.soak
def test_a_sink_that_stands_still_for_a_while_holds_back_its_own_feed_only(
    broker: KafkaBroker, other: KafkaBroker, topic_prefix: str, tmp_path: Path
) -> None:
    with _loaded(broker, topic_prefix, tmp_path, 11) as load:
        worker = load.start_worker("w0", sink_stall_ms=_STALL_MS)
        feeds = _Two(load, broker, other, tmp_path / "history")
        feeds.until_live(worker)
        other.pause()
        feeds.until(worker, "the feed to be detached", lambda states: "spooling" in states)
        feeds.goes_on(worker)
        assert any(row["spool_bytes"] for row in feeds.deliveries(worker))
        other.resume()
        feeds.until_live(worker)
        feeds.finish(worker)
        assert "the sink keeps up again" in worker.text
        assert "the spool is given up" not in worker.text


@pytest.mark.parametrize("killed", [False, pytest.param(True, marks=pytest.mark.soak)])
def test_a_feed_that_is_stalled_catches_up_from_the_store(
    broker: KafkaBroker, other: KafkaBroker, topic_prefix: str, tmp_path: Path, *, killed: bool
) -> None:
    with _loaded(broker, topic_prefix, tmp_path, 12) as load:
        settings: dict[str, Any] = {"sink_stall_ms": _STALL_MS, "feed_spool_bytes": _TINY_BYTES}
        worker = load.start_worker("w0", **settings)
        feeds = _Two(load, broker, other, tmp_path / "history")
        feeds.until_live(worker)
        other.pause()
        feeds.until(worker, "the feed to be stalled", lambda states: states == ["stalled"] * PARTITIONS)
        feeds.goes_on(worker)
        if killed:
            worker.kill()
            worker = load.start_worker("w0", **settings)
            worker.wait_for("the worker starts")
            feeds.until(worker, "the feed to catch up", lambda states: "catching up" in states)
        other.resume()
        feeds.until_live(worker)
        feeds.finish(worker)

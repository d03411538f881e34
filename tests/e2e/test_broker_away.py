"""Kafka that is not there yet, or goes away for a while."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.repeated_lines import AGAIN_S
from stack.kafka import KafkaBroker
from tests.e2e.scenario import Scenario, bank_log

pytestmark = [pytest.mark.broker, pytest.mark.slow]

_OUTAGE_S = 8.0  # longer than the session of 6 s: the group has to be joined again


@pytest.fixture(scope="module")
def mistreated() -> Iterator[KafkaBroker]:
    with KafkaBroker() as running:
        yield running


@pytest.fixture
def own_broker(mistreated: KafkaBroker) -> KafkaBroker:
    """The module's broker, which runs whatever became of it in the test before."""
    mistreated.start().resume()
    return mistreated


@pytest.fixture
def own_scenario(own_broker: KafkaBroker, topic_prefix: str, tmp_path: Path) -> Iterator[Scenario]:
    made = Scenario(own_broker.bootstrap, topic_prefix, tmp_path, bank_log(seed=3, transactions=200))
    yield made
    made.close()


def test_a_worker_waits_for_the_broker_at_start(own_broker: KafkaBroker, own_scenario: Scenario) -> None:
    own_broker.stop()
    worker = own_scenario.start_worker()
    worker.wait_for("waiting for Kafka")
    own_broker.start()
    worker.wait_for("partitions assigned", 90)


def test_a_worker_outlives_an_outage(own_broker: KafkaBroker, own_scenario: Scenario) -> None:
    worker = own_scenario.start_worker(stall_alarm_ms=2_000)
    own_scenario.create_feed(worker)
    own_scenario.append(max(map(len, own_scenario.log.partitions)) // 2)
    begun = time.monotonic()
    own_broker.kill()
    time.sleep(_OUTAGE_S)
    own_broker.start()
    own_scenario.append()
    own_scenario.wait_until_covered(worker)
    outage_s = time.monotonic() - begun  # until every client is back
    lines = worker.text.count("Unable to update metadata")
    assert lines <= outage_s / AGAIN_S + 2, "the clients fill the log"
    assert worker.stop() == 0, worker.text


def test_a_frozen_broker_raises_the_stall_alarm(own_broker: KafkaBroker, own_scenario: Scenario) -> None:
    with own_scenario.start_worker(instance_id="w0") as first:
        own_scenario.create_feed(first)
        assert first.stop() == 0, first.text
    own_scenario.append()
    freezing = ("-m", "tests.e2e.crashing_worker", "freeze-broker-at", str(own_broker.pid))
    worker = own_scenario.start_worker("w0", freezing, instance_id="w0", stall_alarm_ms=2_000)
    worker.wait_for("rows wait for their acknowledgement")
    assert worker.ask("/status")["stalled_partitions"]
    own_broker.resume()
    worker.wait_for("rows are acknowledged again")
    own_scenario.wait_until_covered(worker)

"""A transaction that nobody ends is named by ``tidegate why``, for as long as it holds the markers back."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final, NamedTuple

import pytest

from tests.e2e.log_ends import wait_until_read
from tests.e2e.scenario import HEAD_RECORDS, PARTITIONS, Scenario
from tests.e2e.worker_process import WorkerProcess
from tests.logs import SimulatedLog
from tidegate.client.kafka.connection import KafkaConnection
from tidegate.processor.config import ProcessorConfig
from tidegate.processor.processor import PartitionProcessor
from tidegate.processor.push_policy import PushPolicy
from tidegate.processor.range_facts import Condition, OpenTxn, RangeFacts
from tidegate.serve.feeds.feed_lookup import FeedLookup
from tidegate.serve.feeds.shown_feed import ShownFeed
from tidegate.spans import EVERYTHING

pytestmark = pytest.mark.broker

_STEP: Final = 10


class Stuck(NamedTuple):
    """A trouble: after so many records of each partition ``facts`` is the least far range, and ``txn`` holds
    it."""

    records: int
    partition: int
    facts: RangeFacts
    txn: OpenTxn


def stuck_in(log: SimulatedLog) -> Stuck:
    """A place amid the log where an open transaction is all that holds time back."""
    config = ProcessorConfig(PushPolicy(enabled=False))
    processors = [PartitionProcessor(number, PARTITIONS, config) for number in range(PARTITIONS)]
    read = HEAD_RECORDS
    for processor, records in zip(processors, log.partitions, strict=True):
        processor.step(records[:read])
    while read + _STEP < min(map(len, log.partitions)):
        for processor, records in zip(processors, log.partitions, strict=True):
            processor.step(records[read : read + _STEP])
        read += _STEP
        slowest = (
            (facts.resolved, facts.range_id, processor.partition, facts)
            for processor in processors
            for facts in processor.ranges_in(EVERYTHING).slowest
        )
        resolved, _, partition, facts = min(slowest, key=lambda item: item[:2])
        txn = facts.txn
        if facts.condition is Condition.LIVE and txn is not None and resolved < txn.timestamp < facts.closed:
            return Stuck(read, partition, facts, txn)
    raise AssertionError("no transaction of the log is open for long enough")


def why(scenario: Scenario, *more: str) -> str:
    """Return what the command prints, as an operator calls it beside the worker."""
    arguments = ["-m", "tidegate.cli", "why", "bank", "--app-id", scenario.app_id, "-b", scenario.bootstrap]
    arguments += ["--data-dir", str(scenario.directory / "w0"), *more]
    done = subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def answer(scenario: Scenario) -> dict[str, Any]:
    """The answer for programs."""
    found: dict[str, Any] = json.loads(why(scenario, "--format", "json"))["answer"]
    return found


def look_at(scenario: Scenario) -> ShownFeed:
    """The feed as the page of feeds of `tidegate serve` shows it."""
    data_dirs = (scenario.directory / "w0",)
    lookup = FeedLookup(
        KafkaConnection(scenario.bootstrap, timeout_s=60), scenario.app_id, data_dirs=data_dirs
    )
    (found,) = lookup.look().feeds
    return found


@contextmanager
def dying_after_status(worker: WorkerProcess) -> Iterator[str]:
    """The address of a worker that says what ``worker`` says at /status, and answers nothing after that."""
    status = json.dumps(worker.ask("/status")).encode()

    class Dying(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == "/status":
                self.send_response(200)
                self.send_header("Content-Length", str(len(status)))
                self.end_headers()
                self.wfile.write(status)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Dying) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def wait_until_acknowledged(worker: WorkerProcess) -> None:
    """Return once nothing is in flight any more."""
    worker.wait_until(
        lambda: not any(each["inflight_rows"] for each in worker.ask("/status")["partitions"]), "all rows"
    )


def test_a_stuck_transaction_is_named_and_then_the_source_that_closes_nothing(scenario: Scenario) -> None:
    stuck = stuck_in(scenario.log)
    worker = scenario.start_worker(push_enabled=False)
    scenario.create_feed(worker)
    scenario.append(stuck.records - scenario.written)
    wait_until_read(scenario, worker)
    wait_until_acknowledged(worker)
    worker.wait_until(lambda: answer(scenario)["cause"] == "transaction", "the frontier to come as far")
    found = answer(scenario)
    assert (found["partition"], found["range_id"]) == (stuck.partition, stuck.facts.range_id)
    assert found["transaction"]["id"] == stuck.txn.txn_id.hex()
    assert found["transaction"]["intents"] == stuck.txn.intents
    assert found["offset"] == stuck.records
    with dying_after_status(worker) as url:
        told = why(scenario, "--url", url)
    assert f"The worker at {url} does not answer" in told
    assert "were reported by nobody" not in told
    text = why(scenario)
    assert f"Transaction {stuck.txn.txn_id.hex()} has been open for " in text
    assert "Its anchor is accounts/1/" in text
    assert "Pushing is switched off (push_enabled)" in text
    shown = look_at(scenario)
    assert shown.why[0].cause.value == "transaction"
    assert shown.ranges[0].range_id == stuck.facts.range_id
    before = shown.records
    scenario.append()
    scenario.wait_until_covered(worker)
    worker.wait_until(lambda: answer(scenario)["cause"] == "closed_timestamp", "the frontier at its end")
    after = look_at(scenario).records
    assert before is not None
    assert after is not None
    assert before < after
    assert "the source has not closed a timestamp since" in why(scenario)

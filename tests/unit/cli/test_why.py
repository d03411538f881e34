"""``tidegate why`` against a broker, and small HTTP servers in the place of workers."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Final

import pytest

from stack.kafka import KafkaBroker
from tests.feeds import activation
from tests.hand_log import at, txn
from tests.unit.cli.running import NOBODY, run
from tests.unit.client.topics import create_topic
from tests.unit.processor.logs import PLAIN
from tidegate.changefeed.definition.feed import FeedState
from tidegate.changefeed.lifecycle.job_records import DefinitionRecord, StateRecord
from tidegate.client.kafka.connection import KafkaConnection
from tidegate.client.kafka.writer import write_record
from tidegate.hlc import ZERO
from tidegate.processor.range_facts import Condition, OpenTxn, RangeFacts
from tidegate.processor.status import RangesIn, RangeSpan
from tidegate.raftlog.entry import Generation, RangeId
from tidegate.verify import TopicPartition
from tidegate.worker.operations.report import (
    FeedReport,
    LaggingReport,
    PartitionReport,
    SpanReport,
    WorkerReport,
)

pytestmark = pytest.mark.broker

_FEED: Final = activation([PLAIN.descriptor], feed_id="bank")
(_SPAN,) = _FEED.targets[0].spans
_KEEPER: Final = WorkerReport(
    "app",
    None,
    "raftlog",
    2,
    stall_alarm_ms=1_000,
    partitions=(PartitionReport(0, "running", next_offset=10, lag_records=0),),
    feeds=(
        FeedReport("bank", 1, str(at(20)), 5, _SPAN.start.hex(), _SPAN.end.hex(), str(at(20)), None, None, 0),
    ),
)
_OTHER: Final = WorkerReport(
    "app",
    None,
    "raftlog",
    2,
    stall_alarm_ms=1_000,
    partitions=(PartitionReport(1, "running", next_offset=44, lag_records=0, log_time_ms=at(90).wall_ms),),
    push_enabled=False,
    push_age_ms=10_000,
)
_HELD: Final = RangeFacts(
    RangeId(7),
    Generation(2),
    Condition.LIVE,
    _SPAN,
    at(20),
    at(80),
    1,
    txn=OpenTxn(txn(5), PLAIN.key(17), at(21), at(21), 3),
)
_RANGES: Final = SpanReport(
    1, RangesIn((_HELD,), (RangeSpan(_HELD.range_id, _HELD.generation, True, _SPAN),), complete=True)
)


@contextmanager
def worker(report: WorkerReport, *ranges: SpanReport) -> Iterator[str]:
    """Serves what a worker would, once it is asked for the span of the frontier."""

    class _Worker(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked = f"/ranges?start={_SPAN.start.hex()}&end={_SPAN.end.hex()}"
            answers = {
                "/status": report.as_json(),
                asked: {"partitions": [each.as_json() for each in ranges]},
            }
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps(answers[self.path]).encode())

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
            """Say nothing."""

    with HTTPServer(("127.0.0.1", 0), _Worker) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture
def kafka(broker: KafkaBroker, topic_prefix: str) -> tuple[str, ...]:
    """Options of the command; the feed is running."""
    app_id = f"{topic_prefix}app"
    place = TopicPartition(f"{app_id}-jobs", 0)
    create_topic(broker.bootstrap, place.topic)
    state = StateRecord(_FEED.feed_id, _FEED.definition.epoch, FeedState.RUNNING, ZERO, _FEED.targets)
    for record in (DefinitionRecord(_FEED.definition), state):
        write_record(KafkaConnection(broker.bootstrap), place, record.key, record.to_bytes())
    return ("--timeout", "60", "--app-id", app_id, "-b", broker.bootstrap)


def test_workers_are_asked_together_and_the_answer_is_a_sentence(kafka: tuple[str, ...]) -> None:
    with worker(_KEEPER) as keeper, worker(_OTHER, _RANGES) as other:
        result = run("why", "bank", *kafka, "--url", keeper, "--url", other)
    assert result.exit_code == 0, result.stderr
    lines = [line.split(maxsplit=1) for line in result.stdout.splitlines()]
    assert lines[0] == ["feed", "bank, running"]
    assert ["range", "7, generation 2, live"] in lines
    assert ["log", "partition 1, offset 44"] in lines
    assert f"Transaction {txn(5).hex()} has been open for 69.0 s" in result.stdout
    assert "Its anchor is plain/1/17" in result.stdout
    assert "Pushing is switched off" in result.stdout


def test_the_answer_as_json(kafka: tuple[str, ...]) -> None:
    with worker(_KEEPER) as keeper, worker(_OTHER, _RANGES) as other:
        result = run("why", "bank", *kafka, "--url", keeper, "--url", other, "--format", "json")
    told = json.loads(result.stdout)
    assert (told["feed"], told["answer"]["cause"], told["answer"]["range_id"]) == ("bank", "transaction", 7)
    assert told["answer"]["transaction"]["id"] == txn(5).hex()


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_feed_that_scans_is_explained(kafka: tuple[str, ...], form: str) -> None:
    """A range that the feed misses rows of is told by number alone."""
    scanning = LaggingReport(1, "bank", 1, None, 7, 0, 1, None)
    busy = replace(_OTHER, partitions=(replace(_OTHER.partitions[0], lagging=(scanning,)),))
    with worker(_KEEPER) as keeper, worker(busy, _RANGES) as other:
        result = run("why", "bank", *kafka, "--url", keeper, "--url", other, "--format", form)
    assert result.exit_code == 0, result.stderr
    assert "the initial scan has not come to the end of range 7" in result.stdout


def test_a_worker_that_was_not_named_is_missed(kafka: tuple[str, ...]) -> None:
    with worker(_KEEPER) as keeper:
        result = run("why", "bank", *kafka, "--url", keeper)
    assert result.exit_code == 0
    assert "Log partition 1 is without a worker" in result.stdout


def test_no_worker_at_all_is_an_answer(kafka: tuple[str, ...], tmp_path: Path) -> None:
    result = run("why", "bank", *kafka, "--data-dir", str(tmp_path))
    assert result.exit_code == 0
    assert "keeps the feed's frontier" in result.stdout
    assert f"No worker runs with the data directory {tmp_path}" in result.stdout


def test_a_worker_of_another_version_is_a_sentence(kafka: tuple[str, ...]) -> None:
    with worker(_KEEPER) as keeper, pytest.MonkeyPatch.context() as patch:
        patch.setattr(WorkerReport, "as_json", lambda self: {"log": "raftlog"})
        result = run("why", "bank", *kafka, "--url", keeper)
    assert result.exit_code == 1
    assert "of another version than this command" in result.stderr


def test_an_unknown_feed_is_a_sentence(kafka: tuple[str, ...]) -> None:
    result = run("why", "nobody", *kafka)
    assert result.exit_code == 1
    assert result.stderr.startswith("There is no feed nobody")


def test_a_broker_that_is_away_is_a_sentence() -> None:
    result = run("why", "bank", *NOBODY)
    assert result.exit_code == 1
    assert "gave no answer" in result.stderr

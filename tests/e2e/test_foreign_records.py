"""Records that tidegate did not write, on every topic of an application: they end nobody, no row is lost."""

from __future__ import annotations

import json
import re
import urllib.request
from typing import Final

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from tests.e2e.log_ends import wait_until_read
from tests.e2e.scenario import LONG_SESSION_MS, PARTITIONS, Scenario
from tests.e2e.worker_process import WorkerProcess
from tidegate.changefeed.definition.feed import FIRST_EPOCH, FeedId, FeedState
from tidegate.changefeed.definition.stored_json import STORED_VERSION
from tidegate.changefeed.lifecycle.control import Active, Register, Remove, ack_key
from tidegate.client.jobs import Jobs
from tidegate.client.kafka.topics import Topics
from tidegate.processor.state.position_hash import POSITION_KEY
from tidegate.raftlog.encode import encode_key
from tidegate.raftlog.entry import RangeId

pytestmark = [pytest.mark.broker, pytest.mark.slow]

_DEEP: Final = b'{"v":1,"kind":' + b"[" * 100_000
_BYTES: Final = [
    b"",
    b"hello",
    b"\xff\xfe\x00",
    b"\x02\xff\xff\xff",
    b"\x09newer?",
    b"null",
    b"[]",
    b"{}",
    b'{"v":1}',
    b'{"v":99999999,"kind":"register"}',
    b'{"v":5,"kind":"register","definition":{"id":"\\ud800"}}',
    b'{"v":5,"kind":"active","feed_id":"bank","epoch":1,"partition":' + b"9" * 5_000 + b"}",
    b'{"v":5,"kind":"progress","feed_id":"bank","epoch":1,"high_water":"'
    + b"9" * 5_000
    + b'","positions":{}}',
    _DEEP,
]
_KEYS: Final = [
    b"bank/definition",
    b"bank/progress",
    b"bank",
    b"bank/1/0",
    b"\xff",
    b"\x00" * 16,
    b"x" * 2_000,
]


def _topics(scenario: Scenario) -> list[str]:
    names = Topics(scenario.app_id, scenario.prefix)
    return [names.jobs, names.control, names.control_acks, names.hand_offs, names.checkpoints]


def write_foreign(scenario: Scenario) -> None:
    """Every odd value, every odd key, and records of ours that stand under a wrong key, on every partition.

    ``jobs`` is compacted, and keeps the last record of a key: nothing there has the key of a real record.
    """
    assert scenario.feed is not None
    definition = scenario.feed.definition
    misplaced = [Register(definition).to_bytes(), Remove(definition.id, FIRST_EPOCH).to_bytes()]
    far = Active(definition.id, FIRST_EPOCH, 2**31 - 1)
    producer = Producer({"bootstrap.servers": scenario.bootstrap})
    counts = AdminClient({"bootstrap.servers": scenario.bootstrap}).list_topics(timeout=30).topics
    for topic in _topics(scenario):
        for partition in counts[topic].partitions:
            for number, value in enumerate([*_BYTES, *misplaced, None]):
                producer.produce(topic, value, b"foreign/%d" % number, partition)
            for key in _KEYS if topic != f"{scenario.app_id}-jobs" else _KEYS[4:]:
                producer.produce(topic, b"hello", key, partition)
            producer.produce(topic, far.to_bytes(), ack_key(far), partition)
            if topic.endswith("-checkpoints"):  # the others are compacted, and take no record without a key
                producer.produce(topic, b"hello", None, partition)
    assert producer.flush(60) == 0


def write_to_changelogs(scenario: Scenario) -> list[str]:
    """Odd values under odd keys and under keys of rows, in every changelog."""
    changelogs = list(Topics(scenario.app_id, scenario.prefix).changelogs().values())
    producer = Producer({"bootstrap.servers": scenario.bootstrap})
    for topic in changelogs:
        for partition in range(PARTITIONS):
            for key in (*_KEYS, encode_key(RangeId(1)), POSITION_KEY, b"d" + b"\0" * 16, b"bank"):
                producer.produce(topic, b"hello", key, partition)
                producer.produce(topic, b"", key, partition)
            producer.produce(topic, b"\x02hello", b"\xff/", partition)
    assert producer.flush(60) == 0
    return changelogs


def test_foreign_records_in_changelogs_do_not_come_into_the_state(scenario: Scenario) -> None:
    worker = scenario.start_worker("w0")
    scenario.create_feed(worker)
    scenario.append(len(max(scenario.log.partitions, key=len)) // 2)
    wait_until_read(scenario, worker)
    changelogs = write_to_changelogs(scenario)
    assert worker.stop() == 0, worker.text
    anew = scenario.start_worker(
        "w1", session_timeout_ms=LONG_SESSION_MS
    )  # it has no copy: all of the changelogs are read
    anew.wait_until(lambda: anew.text.count("partition restored") == PARTITIONS, "all partitions")
    for topic in changelogs:
        assert f"{topic}[" in anew.text
    scenario.append()
    scenario.wait_until_covered(anew)
    assert anew.stop() == 0, anew.text


def _metrics(worker: WorkerProcess) -> str:
    address = json.loads((worker.home / "worker.json").read_text())["url"]
    with urllib.request.urlopen(f"{address}/metrics", timeout=60) as answer:
        return str(answer.read().decode())


def _wait_for_report(worker: WorkerProcess, topic: str) -> None:
    """Wait for one line about the topic. Lines of several partitions are alike, and only the first is
    written."""
    report = re.compile(rf"{re.escape(topic)}\[\d\] at offset")
    worker.wait_until(lambda: report.search(worker.text) is not None, f"a report of {topic}")


def test_foreign_records_on_every_topic_end_no_worker_and_no_feed(scenario: Scenario) -> None:
    worker = scenario.start_worker()
    view = scenario.create_feed(worker)
    write_foreign(scenario)
    for topic in _topics(scenario):
        _wait_for_report(worker, topic)
    scenario.append(len(max(scenario.log.partitions, key=len)) // 2)
    metrics = _metrics(worker)
    for topic in _topics(scenario):
        assert f'tidegate_foreign_records_total{{topic="{topic}"}}' in metrics
    assert worker.stop() == 0, worker.text
    again = scenario.start_worker()
    again.wait_for("partition restored")
    scenario.append()
    scenario.wait_until_covered(again)
    jobs = Jobs(scenario.connection, scenario.app_id)
    feed = jobs.feed(FeedId("bank"))
    assert feed.status is FeedState.RUNNING
    assert feed.definition == view.definition
    jobs.drop(FeedId("bank"))
    again.wait_until(lambda: jobs.feed(FeedId("bank")).status is FeedState.DROPPED, "the feed to be dropped")
    assert again.stop() == 0, again.text
    assert "Traceback" not in worker.text + again.text


def test_a_record_of_a_newer_version_ends_a_worker_with_a_sentence(scenario: Scenario) -> None:
    worker = scenario.start_worker()
    view = scenario.create_feed(worker)
    assert view.definition is not None
    newer = {**json.loads(Register(view.definition).to_bytes()), "v": STORED_VERSION + 1}
    producer = Producer({"bootstrap.servers": scenario.bootstrap})
    producer.produce(f"{scenario.app_id}-control", json.dumps(newer).encode(), b"bank", 0)
    assert producer.flush(60) == 0
    assert worker.wait() != 0
    assert f"written by a newer tidegate (format {STORED_VERSION + 1}" in worker.text

"""The real broker: started, stopped, killed, frozen, and run in the background."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from stack.kafka import KafkaBroker
from stack.places import CHECKOUT
from stack.processes.identity import ProcessIdentity
from tests.e2e.stack_end import stack

pytestmark = pytest.mark.broker

_OWNER = """
import time
from stack.kafka import KafkaBroker
broker = KafkaBroker().start()
print(broker.pid, broker.log.parent, flush=True)
time.sleep(600)
"""


@pytest.fixture
def own_broker() -> Iterator[KafkaBroker]:
    """A broker that the test may stop and kill."""
    with KafkaBroker() as running:
        yield running


def create_topic(broker: KafkaBroker, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for created in admin.create_topics([NewTopic(topic, 1, 1)]).values():
        created.result(timeout=30)


def produce(broker: KafkaBroker, topic: str, value: bytes) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "acks": "all"})
    producer.produce(topic, value)
    assert producer.flush(30) == 0


def read(broker: KafkaBroker, topic: str, count: int) -> list[bytes]:
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap, "group.id": topic, "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic])
    try:
        values = [message.value() for message in consumer.consume(count, timeout=60)]
    finally:
        consumer.close()
    return [value for value in values if value is not None]


def test_records_are_read_as_they_were_written(broker: KafkaBroker, topic_prefix: str) -> None:
    create_topic(broker, topic_prefix + "t")
    produce(broker, topic_prefix + "t", b"one")
    assert read(broker, topic_prefix + "t", 1) == [b"one"]


def test_a_topic_that_nobody_created_does_not_appear(broker: KafkaBroker, topic_prefix: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.list_topics(topic_prefix + "absent", timeout=30)
    assert topic_prefix + "absent" not in admin.list_topics(timeout=30).topics


@pytest.mark.soak
def test_data_outlive_a_stop_and_a_kill(own_broker: KafkaBroker, capsys: pytest.CaptureFixture[str]) -> None:
    create_topic(own_broker, "t")
    produce(own_broker, "t", b"before the stop")
    own_broker.stop()
    begin = time.monotonic()
    own_broker.start()
    after_stop_s = time.monotonic() - begin
    produce(own_broker, "t", b"before the kill")
    own_broker.kill()
    begin = time.monotonic()
    own_broker.start()
    after_kill_s = time.monotonic() - begin
    assert read(own_broker, "t", 2) == [b"before the stop", b"before the kill"]
    with capsys.disabled():
        print(
            f"\nstart on existing data: {after_stop_s:.1f} s after a stop, {after_kill_s:.1f} s after a kill"
        )


def test_a_frozen_broker_takes_what_was_sent_once_it_goes_on(own_broker: KafkaBroker) -> None:
    create_topic(own_broker, "t")
    producer = Producer({"bootstrap.servers": own_broker.bootstrap, "enable.idempotence": True})
    producer.produce("t", b"first")
    assert producer.flush(30) == 0
    own_broker.pause()
    producer.produce("t", b"second")
    assert producer.flush(0.5) == 1
    own_broker.resume()
    assert producer.flush(60) == 0
    assert read(own_broker, "t", 2) == [b"first", b"second"]


def test_close_removes_only_what_it_made(tmp_path: Path) -> None:
    with KafkaBroker(data=tmp_path / "mine") as running:
        home = running.log.parent
        assert home.exists()
    assert not home.exists()
    assert (tmp_path / "mine" / "meta.properties").exists()


def test_a_broker_dies_with_the_process_that_started_it(tmp_path: Path) -> None:
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    with subprocess.Popen(
        [sys.executable, "-c", _OWNER], cwd=CHECKOUT, env=environment, stdout=subprocess.PIPE, text=True
    ) as owner:
        assert owner.stdout is not None
        pid = int(owner.stdout.readline().split()[0])
        process = ProcessIdentity.of(pid)
        owner.kill()
    assert process is not None
    deadline = time.monotonic() + 30
    while process.alive():
        assert time.monotonic() < deadline, "the broker outlived its owner"
        time.sleep(0.05)


def healthy_status(run_dir: Path) -> str:
    """Return the status once it says that all is well: the command gives a busy server two seconds."""
    deadline = time.monotonic() + 60
    while not (status := stack(run_dir, "status")).strip().endswith("healthy"):
        assert time.monotonic() < deadline, status
        time.sleep(0.2)
    return status


def test_up_status_and_down(tmp_path: Path) -> None:
    assert stack(tmp_path, "status") == "Nothing is up.\n"
    try:
        first = stack(tmp_path, "up", "kafka")
        address = first.split(" at ")[1].split()[0]
        assert f"kafka is already up at {address}" in stack(tmp_path, "up", "kafka")
        assert address in healthy_status(tmp_path)
        assert AdminClient({"bootstrap.servers": address}).list_topics(timeout=30).brokers
    finally:
        down = stack(tmp_path, "down")
    assert "is down; its data stay in" in down
    assert stack(tmp_path, "status") == "Nothing is up.\n"
    assert stack(tmp_path, "down", "kafka") == "kafka is not up.\n"

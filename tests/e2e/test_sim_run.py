"""The simulated store on a real broker: its log, its answers, its end."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

from sim.check import check_history, check_log
from sim.control import ControlledStore, ask
from sim.log.history import History
from sim.log.sink import WrittenRecord
from sim.options import StoreOptions
from sim.plan import OutcomeMix
from sim.realtime import SimProgress
from sim.run import SimOptions, run
from sim.topics import log_topic, prepare_topics, requests_topic
from sim.workloads.bank import BankOptions
from stack.kafka import KafkaBroker
from tidegate.errors import BrokerUnavailable, InputError, TopologyError
from tidegate.hlc import Timestamp
from tidegate.raftlog.decode import decode_entry
from tidegate.raftlog.encode import partition_of
from tidegate.raftlog.entry import AbortTxn, Command, RangeId, TxnId
from tidegate.raftlog.request import AdminMerge, AdminSplit, Push, PushedTxn, encode_request

pytestmark = pytest.mark.broker

_PARTITIONS: Final = 3
_STORE: Final = StoreOptions(partitions=_PARTITIONS, write_rate=500, closed_lag_ms=200, heartbeat_ms=200)
_READ_S: Final = 60.0


def _options(broker: KafkaBroker, prefix: str, history: Path, seconds: float | None) -> SimOptions:
    workload = BankOptions(accounts=30, outcomes=OutcomeMix(restart=0.1, abort=0.1))
    return SimOptions(broker.bootstrap, prefix, workload, _STORE, seed=1, seconds=seconds, history=history)


def _read_log(broker: KafkaBroker, prefix: str) -> list[WrittenRecord]:
    """The whole log, partition by partition."""
    topic = log_topic(prefix)
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": f"{prefix}reader"})
    records: list[WrittenRecord] = []
    for partition in range(_PARTITIONS):
        place = TopicPartition(topic, partition, OFFSET_BEGINNING)
        end = consumer.get_watermark_offsets(place)[1]
        consumer.assign([place])
        messages = consumer.consume(end, timeout=_READ_S)
        assert len(messages) == end
        records += (
            WrittenRecord(partition, message.key(), message.value(), message.timestamp()[1])
            for message in messages
        )
    consumer.close()
    return records


def _ignore(_: SimProgress) -> None:
    pass


def test_the_log_on_the_broker_keeps_the_contract_and_tells_the_history(
    broker: KafkaBroker, topic_prefix: str, tmp_path: Path
) -> None:
    history = tmp_path / "history"
    progress = run(_options(broker, topic_prefix, history, seconds=1.5), _ignore)
    records = _read_log(broker, topic_prefix)
    assert progress.drained
    assert len(records) == progress.records
    assert check_log(records, _PARTITIONS, frozenset()) == []
    true = History.load(history)
    assert len(true) == progress.versions > 100
    assert check_history(records, true) == []


def test_pushes_on_the_requests_topic_are_answered_in_the_log(
    broker: KafkaBroker, topic_prefix: str, tmp_path: Path
) -> None:
    stranger = TxnId(b"nobody knows it!")
    range_id = RangeId(2)
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    prepare_topics(broker.bootstrap, topic_prefix, _PARTITIONS)
    key, value = encode_request(Push(range_id, (PushedTxn(stranger, b"k"),), Timestamp(1)))
    for payload in (b"\xff not a request", value):
        producer.produce(
            requests_topic(topic_prefix), payload, key, partition=partition_of(range_id, _PARTITIONS)
        )
    assert producer.flush(_READ_S) == 0
    read = threading.Event()
    progress = run(
        _options(broker, topic_prefix, tmp_path / "history", seconds=60),
        lambda progress: read.set() if progress.pushes else None,
        read,
    )
    assert progress.pushes == 1
    entries = [decode_entry(record.key, record.value) for record in _read_log(broker, topic_prefix)]
    answers = [
        (entry.range_id, op)
        for entry in entries
        if isinstance(entry, Command)
        for op in entry.ops or ()
        if isinstance(op, AbortTxn)
    ]
    assert answers == [(range_id, AbortTxn(stranger))]


def test_sigterm_ends_a_run_cleanly(broker: KafkaBroker, topic_prefix: str, tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from tests.e2e.test_sim_run import run_until_stopped; "
        "run_until_stopped(*sys.argv[1:3], Path(sys.argv[3]))"
    )
    history = tmp_path / "history"
    command = [sys.executable, "-c", script, broker.bootstrap, topic_prefix, str(history)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "running\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(_READ_S) == 0
    records = _read_log(broker, topic_prefix)
    assert check_log(records, _PARTITIONS, frozenset()) == []
    assert check_history(records, History.load(history)) == []


def run_until_stopped(bootstrap: str, prefix: str, history: Path) -> None:
    """Run until a signal comes, and say so when it runs: the process of the test above."""
    options = SimOptions(bootstrap, prefix, BankOptions(accounts=30), _STORE, seed=1, history=history)
    run(options, lambda progress: None if progress.drained else print("running", flush=True))


def test_a_run_in_a_thread_is_stopped_by_its_event(
    broker: KafkaBroker, topic_prefix: str, tmp_path: Path
) -> None:
    stop = threading.Event()
    progress: list[SimProgress] = []
    options = _options(broker, topic_prefix, tmp_path / "history", seconds=None)
    thread = threading.Thread(target=lambda: progress.append(run(options, lambda _: stop.set(), stop)))
    thread.start()
    thread.join(_READ_S)
    assert progress[0].drained


def test_a_log_is_never_continued_by_another_store(
    broker: KafkaBroker, topic_prefix: str, tmp_path: Path
) -> None:
    options = _options(broker, topic_prefix, tmp_path / "history", seconds=0.1)
    run(options, _ignore)
    with pytest.raises(TopologyError, match="an earlier store"):
        run(options, _ignore)


def test_topics_with_another_number_of_partitions_are_refused(broker: KafkaBroker, topic_prefix: str) -> None:
    prepare_topics(broker.bootstrap, topic_prefix, 2)
    with pytest.raises(TopologyError, match="has 2 partitions, not 5"):
        prepare_topics(broker.bootstrap, topic_prefix, 5)


def test_a_broker_that_is_not_there_is_named(topic_prefix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sim.topics._TIMEOUT_S", 1.0)
    with pytest.raises(BrokerUnavailable, match=r"127\.0\.0\.1:9"):
        prepare_topics("127.0.0.1:9", topic_prefix, 1)


def test_a_running_store_splits_and_merges_as_it_is_told(
    broker: KafkaBroker, topic_prefix: str, tmp_path: Path
) -> None:
    stop, running = threading.Event(), threading.Event()
    options = _options(broker, topic_prefix, tmp_path / "history", seconds=None)
    thread = threading.Thread(target=lambda: run(options, lambda _: running.set(), stop))
    thread.start()
    assert running.wait(_READ_S)
    store = ControlledStore(broker.bootstrap, topic_prefix)
    left = ask(store, AdminSplit(RangeId(1)), timeout_s=_READ_S)
    merged = ask(store, AdminMerge(RangeId(1)), timeout_s=_READ_S)
    with pytest.raises(InputError, match="range 99"):
        ask(store, AdminSplit(RangeId(99)), timeout_s=1)
    stop.set()
    thread.join(_READ_S)
    assert left.span.start == merged.span.start
    assert left.span.end < merged.span.end
    assert merged.parents[0].range_id == 1
    records = _read_log(broker, topic_prefix)
    assert check_log(records, _PARTITIONS, frozenset()) == []
    assert check_history(records, History.load(tmp_path / "history")) == []


def test_a_store_that_is_not_there_cannot_be_told_anything(broker: KafkaBroker, topic_prefix: str) -> None:
    with pytest.raises(TopologyError, match="sim run"):
        ask(ControlledStore(broker.bootstrap, topic_prefix), AdminMerge(RangeId(1)))

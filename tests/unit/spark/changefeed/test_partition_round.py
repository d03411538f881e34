"""A task without Spark: what it answers for records that it is given, and for what it misses."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Final

import pyarrow as pa
import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from pyarrow import fs

import tidegate.spark.changefeed.task.held_states
import tidegate.spark.changefeed.task.partition_task
import tidegate.spark.changefeed.task.registry_ids
import tidegate.spark.changefeed.task.round_state
from sim.workloads.bank import Bank, BankOptions
from stack.kafka import KafkaBroker
from tests.destinations import DESTINATIONS
from tests.e2e.topics import cut
from tests.feeds import activation
from tests.hand_log import HandLog, HandTable, at
from tests.logs import Record, eventful_store, simulate
from tests.unit.client.topics import create_topic
from tests.unit.spark.one_partition import NOBODY, Tasks, tasks_on
from tidegate.changefeed.encoding.confluent import SubjectSchema
from tidegate.changefeed.lifecycle.control import Ack, Active, Failed, Register, Registered, read_ack
from tidegate.client.kafka.reader import PartitionReader
from tidegate.errors import (
    BrokerUnavailable,
    FeedError,
    QueryEnded,
    RegistryAway,
    RetryError,
    StateError,
    TidegateError,
    TopologyError,
)
from tidegate.processor.batch import StepResult
from tidegate.processor.processor import PartitionProcessor
from tidegate.spark.changefeed.partition_round import run_partitions
from tidegate.spark.changefeed.query import Query
from tidegate.spark.changefeed.rounds import Instructions, Round, RoundId, Told
from tidegate.spark.changefeed.task.answers import Answer
from tidegate.spark.changefeed.task.log_records import TASK_COLUMNS
from tidegate.spark.platform.faults import read_fault
from tidegate.spark.platform.state_files import StateFiles
from tidegate.spark.platform.task_clock import STAGES
from tidegate.verify import TopicPartition as LogPlace
from tidegate.verify import TopicRecord

_SEED: Final = 7
_EVERYTHING: Final = {0: Instructions(everything=True)}


@pytest.fixture(scope="module")
def records() -> list[Record]:
    """The log of one partition: some ranges of a bank."""
    bank = Bank(BankOptions(accounts=20, ranges=3), _SEED)
    (log,) = simulate(bank, eventful_store(1), seed=_SEED, transactions=40).partitions
    return list(log)


def _holes(answers: Iterable[Answer]) -> list[str]:
    incidents = (json.loads(answer.body) for answer in answers if answer.kind == "incident")
    return [incident["cause"] for incident in incidents]


def _fault(answers: list[Answer]) -> TidegateError:
    (answer,) = answers
    assert answer.kind == "fault"
    return read_fault(answer.body)


@pytest.fixture
def tasks(
    broker: KafkaBroker, topic_prefix: str, tmp_path: Path, records: list[Record]
) -> tuple[Tasks, Callable[[int], None]]:
    """Tasks on a log that has the records, and what cuts that log."""
    log = f"{topic_prefix}raftlog"
    create_topic(broker.bootstrap, log)
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for record in records:
        producer.produce(log, record.value, record.key, 0)
    assert producer.flush(30) == 0
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    return tasks_on(broker.bootstrap, log, tmp_path), lambda offset: cut(
        admin, [TopicPartition(log, 0, offset)]
    )


@pytest.mark.broker
def test_what_retention_removed_between_two_batches_is_a_hole(
    tasks: tuple[Tasks, Callable[[int], None]], records: list[Record]
) -> None:
    task, cut_at = tasks
    assert not _holes(task.run(records[:40]))
    cut_at(60)
    holes = _holes(task.run(records[60:62]))
    assert holes
    assert all("begins at offset 60, but offset 40 was to be read next" in hole for hole in holes)


@pytest.mark.broker
def test_what_retention_removed_amid_a_batch_is_a_hole(
    tasks: tuple[Tasks, Callable[[int], None]], records: list[Record]
) -> None:
    task, cut_at = tasks
    cut_at(60)
    holes = _holes(task.run([*records[:40], *records[60:62]]))
    assert holes
    assert all("begins at offset 60, but offset 40 was to be read next" in hole for hole in holes)


@pytest.mark.broker
def test_a_partition_of_a_query_that_is_over_is_freed_in_time(
    tasks: tuple[Tasks, Callable[[int], None]], records: list[Record], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each survey of a backfill is a query, and a Python worker outlives them all."""
    task, _ = tasks
    for number in range(3):
        task.query = replace(task.query, id=f"survey {number}")
        task.run(records[10 * number : 10 * number + 10])
    held = tidegate.spark.changefeed.task.round_state._held
    assert {f"survey {number}" for number in range(3)} <= {query for query, _ in held}
    monkeypatch.setattr(tidegate.spark.changefeed.task.held_states, "_KEPT_S", 0.0)
    task.run(records[30:40])
    assert [*held] == [("survey 2", 0)]


@pytest.mark.broker
def test_a_partition_that_another_python_worker_goes_on_with_is_freed_in_time(
    tasks: tuple[Tasks, Callable[[int], None]], records: list[Record], monkeypatch: pytest.MonkeyPatch
) -> None:
    task, _ = tasks
    task.run(records[:10])
    other = task.query.id, 7
    held = tidegate.spark.changefeed.task.round_state._held
    held[other] = copy(held[task.query.id, 0])
    task.run(records[10:20])
    assert other in held
    monkeypatch.setattr(tidegate.spark.changefeed.task.held_states, "_KEPT_S", 0.0)
    task.run(records[20:30])
    assert list(held) == [(task.query.id, 0)]


@pytest.mark.broker
def test_what_retention_removed_is_noticed_without_records(
    tasks: tuple[Tasks, Callable[[int], None]], records: list[Record]
) -> None:
    task, cut_at = tasks
    task.run(records[:40])
    cut_at(60)
    assert _holes(task.tell(_EVERYTHING))


@pytest.mark.broker
def test_what_retention_removes_amid_a_tasks_own_reading_is_a_hole_at_the_next_try(
    tasks: tuple[Tasks, Callable[[int], None]], records: list[Record], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log's first offset was asked for before."""
    task, cut_at = tasks
    task.run(records[:40])
    read_to = PartitionReader.read_to

    def cut_first(self: PartitionReader, ends: Mapping[LogPlace, int]) -> Iterator[TopicRecord]:
        cut_at(60)
        self.assign(self.positions)  # what it has fetched ahead may reach to beyond the cut
        return read_to(self, ends)

    monkeypatch.setattr(PartitionReader, "read_to", cut_first)
    fault = _fault(task.read(80))
    assert type(fault) is RetryError
    assert "below offset 60 while they were to be read. The next try takes them for a hole." in str(fault)
    monkeypatch.setattr(PartitionReader, "read_to", read_to)
    holes = _holes(task.read(80))
    assert holes
    assert all("begins at offset 60, but offset 40 was to be read next" in hole for hole in holes)


@pytest.mark.broker
def test_an_offset_without_a_record_is_no_hole(
    tasks: tuple[Tasks, Callable[[int], None]], records: list[Record]
) -> None:
    """As where a transaction ended."""
    task, _ = tasks
    head = [record._replace(offset=record.offset + 3 * (record.offset > 20)) for record in records[:40]]
    assert not _holes(task.run(head))


def test_a_broker_that_is_away_is_an_answer(tmp_path: Path, records: list[Record]) -> None:
    fault = _fault(tasks_on(NOBODY, "raftlog", tmp_path).run(records[5:9]))
    assert isinstance(fault, BrokerUnavailable)
    assert f"{NOBODY} gave no answer" in str(fault)


def test_a_state_that_is_gone_is_an_answer(tmp_path: Path, records: list[Record]) -> None:
    tasks = tasks_on(NOBODY, "raftlog", tmp_path)
    tasks.run(records[:5])
    first = tasks.head
    tasks.run(records[5:9])
    (tmp_path / f"state/0/{first}.arrow").unlink()
    restarted = Tasks(replace(tasks.query, id="another run"), tasks.head)
    fault = _fault(restarted.run(records[9:12]))
    assert isinstance(fault, StateError)
    assert f"{first}.arrow is missing" in str(fault)


class _PassingTime:
    """A `time` in which only pauses take any: a busy machine is no slower by it."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


def test_a_registry_that_is_away_is_asked_again_for_a_while(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(tidegate.spark.changefeed.task.registry_ids, "time", _PassingTime())
    schema = SubjectSchema("rows-value", '"string"')
    with pytest.raises(RegistryAway):
        tidegate.spark.changefeed.task.registry_ids.schema_ids(DESTINATIONS, f"http://{NOBODY}", [schema])
    assert len(caplog.messages) == 11, "every 3 s of 30"


def test_a_registry_that_can_never_be_used_fails_the_feed() -> None:
    with pytest.raises(FeedError):
        tidegate.spark.changefeed.task.registry_ids.schema_ids(
            DESTINATIONS, "ftp://registry", [SubjectSchema("rows-value", '"string"')]
        )


def test_the_state_of_the_batch_before_stays_until_the_batch_is_done(
    tmp_path: Path, records: list[Record], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A driver that dies before the account of the batch is stored begins it again from there."""
    monkeypatch.setattr(
        tidegate.spark.changefeed.task.round_state, "_FEW_CHANGES", 0
    )  # files hold all rows often
    tasks = tasks_on(NOBODY, "raftlog", tmp_path)
    tasks.run(records[:10])
    for start in range(10, 60, 10):
        account = tasks.head
        tasks.run(records[start : start + 10])
        tasks.in_one_batch()
        tasks.tell({0: Instructions()})
        filesystem, root = fs.FileSystem.from_uri(tasks.query.root)
        assert StateFiles(filesystem, root, 0).load(account).rows


def test_a_partition_that_was_not_there_is_an_answer(tmp_path: Path, records: list[Record]) -> None:
    fault = _fault(tasks_on(NOBODY, "raftlog", tmp_path).run(records[:5], partition=1))
    assert isinstance(fault, TopologyError)
    assert "has a partition 1 now, and had 1 partitions" in str(fault)


def test_a_task_says_what_it_spent_its_time_on(records: list[Record], tmp_path: Path) -> None:
    answers = tasks_on(NOBODY, "raftlog", tmp_path).run(records[:40])
    (figures,) = [json.loads(answer.body) for answer in answers if answer.kind == "figures"]
    seconds, cpu_s = figures["seconds"], figures["cpu_s"]
    assert list(seconds) == list(cpu_s) == list(STAGES)
    assert min(seconds[stage] for stage in ("load", "read", "step", "store")) > 0
    assert cpu_s["produce"] < cpu_s["step"]  # without a feed there are no rows


def _in_one_task(logs: Sequence[Sequence[Record]], parts: Iterable[int], root: Path) -> list[Answer]:
    """The answers of one task with the records of these partitions, in Arrow batches of a few records."""
    tasks = tasks_on(NOBODY, "raftlog", root)
    query = replace(tasks.query, partitions=len(logs))
    rows = [
        {"partition": number, "offset": each.offset, "timestamp_ms": each.timestamp}
        | {"key": each.key, "value": each.value}
        for number in parts
        for each in logs[number]
    ]
    batches = pa.Table.from_pylist(rows).select(list(TASK_COLUMNS)).to_batches(max_chunksize=7)
    found = run_partitions(query, Round(RoundId(0, 0), records=True), {}, batches)
    return [Answer(**row) for batch in found for row in batch.to_pylist()]


@pytest.fixture(scope="module")
def logs() -> Sequence[Sequence[Record]]:
    """The log of three partitions, whose ranges split and merge."""
    bank = Bank(BankOptions(accounts=20, ranges=3), _SEED)
    return simulate(bank, eventful_store(3), seed=_SEED, transactions=40).partitions


def test_partitions_in_one_task_answer_as_each_does_alone(
    tmp_path: Path, logs: Sequence[Sequence[Record]]
) -> None:
    alone = [answer for number in range(3) for answer in _in_one_task(logs, [number], tmp_path / "alone")]
    together = _in_one_task(logs, range(3), tmp_path / "together")
    own = ("head", "figures")
    assert [(each.partition, each.kind) for each in together if each.kind in own] == [
        (number, kind) for number in range(3) for kind in own
    ]
    assert [each for each in together if each.kind not in own] == [
        each for each in alone if each.kind not in own
    ]
    states: dict[int, list[object]] = {}
    for heads, root in ((alone, "alone"), (together, "together")):
        filesystem, path = fs.FileSystem.from_uri((tmp_path / root).as_uri())
        for answer in heads:
            if answer.kind == "head":
                files = StateFiles(filesystem, path, answer.partition)
                states.setdefault(answer.partition, []).append(files.load(answer.body.decode()).rows)
    assert all(one == other for one, other in states.values())


def test_a_task_goes_on_until_its_steps_have_taken_all_records(
    tmp_path: Path, logs: Sequence[Sequence[Record]], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = _in_one_task(logs, [0], tmp_path / "whole")
    steps: list[int] = []
    step_some = PartitionProcessor.step_some

    def step_few(self: PartitionProcessor, records: Sequence[Record], end: int | None = None) -> StepResult:
        result = step_some(self, records[:3], end)
        steps.append(result.taken)
        return result

    monkeypatch.setattr(PartitionProcessor, "step_some", step_few)
    parts = _in_one_task(logs, [0], tmp_path / "parts")
    assert sum(steps) == len(logs[0])
    assert max(steps) == 3
    for kind in ("checkpoint", "fault", "broke"):
        assert [each.body for each in parts if each.kind == kind] == [
            each.body for each in whole if each.kind == kind
        ]
    (head,), (other,) = ([each for each in answers if each.kind == "head"] for answers in (parts, whole))
    found = []
    for root, answer in (("parts", head), ("whole", other)):
        filesystem, path = fs.FileSystem.from_uri((tmp_path / root).as_uri())
        found.append(StateFiles(filesystem, path, 0).load(answer.body.decode()).rows)
    assert found[0].keys() == found[1].keys()


def test_a_partition_that_comes_in_two_parts_is_a_fault_and_not_half_a_state(
    tmp_path: Path, logs: Sequence[Sequence[Record]]
) -> None:
    answers = _in_one_task(logs, [0, 1, 0], tmp_path)
    (fault,) = [each for each in answers if each.kind == "fault"]
    assert (fault.partition, type(read_fault(fault.body))) == (0, QueryEnded)
    assert {each.partition for each in answers if each.kind == "head"} == {0, 1}


_PLAIN: Final = HandTable.of(104, "plain")
_NEW: Final = activation([_PLAIN.descriptor], feed_id="new", sink_uri=f"kafka://{NOBODY}")
_RUNS: Final = Told(
    0, activation([_PLAIN.descriptor], feed_id="runs", sink_uri=f"kafka://{NOBODY}").to_bytes()
)
_REGISTER: Final = Told(1, Register(_NEW.definition).to_bytes())
_ACTIVATE: Final = Told(2, replace(_NEW, start=at(100)).to_bytes())


def _acks(answers: Iterable[Answer]) -> list[Ack]:
    assert not [answer for answer in answers if answer.kind == "fault"], _fault([*answers])
    return [read_ack(answer.body) for answer in answers if answer.kind == "ack"]


def test_records_that_come_before_a_new_feeds_start_fail_that_feed_alone(
    tmp_path: Path, records: list[Record]
) -> None:
    """Its preparation may wait for somebody, and a held partition takes no records."""
    tasks, without = tasks_on(NOBODY, "raftlog", tmp_path / "with"), tasks_on(NOBODY, "raftlog", tmp_path)
    heads = [tasks.run(records[:20]), without.run(records[:20])]
    (registered,) = _acks(tasks.tell({0: Instructions(controls=(_REGISTER,))}))
    assert isinstance(registered, Registered)
    held = tasks.head
    for _ in range(2):  # the round runs once more, from the same state
        tasks.head = held
        tasks.in_one_batch()
        heads[0] = tasks.run(records[20:40])
        (failed,) = _acks(heads[0])
        assert isinstance(failed, Failed)
        assert failed.feed_id == "new"
        assert "no start came for new before the next records of the log" in failed.reason
    heads[1] = without.run(records[20:40])
    told = [[each.body for each in answers if each.kind == "checkpoint"] for answers in heads]
    assert told[0] == told[1], "nobody else noticed"
    (late,) = _acks(tasks.tell({0: Instructions(controls=(_ACTIVATE,))}))
    assert isinstance(late, Failed)


@pytest.mark.parametrize("starts", [True, False], ids=["the start", "records"])
def test_a_held_partition_reads_nothing_again_before_it_is_held_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, starts: bool
) -> None:
    """A Python worker that loads a state has to read again what ranges that wait have not applied."""
    plain, written = _PLAIN, HandLog(2)
    written.describe(plain)
    parent = written.open_range(3, plain.span)
    parent.apply(plain.put(5, 150, "parent"), close=5)
    child = parent.split(plain.key(100), 4, close=6)
    child.apply(plain.put(8, 150, "child"), close=7)
    child.heartbeat(9)
    log, read = written.partitions[0], list[range]()

    def read_again(query: Query, partition: int, offsets: range) -> Iterator[list[Record]]:
        read.append(offsets)
        yield [*log[offsets.start : offsets.stop]]

    module = tidegate.spark.changefeed.task.partition_task
    monkeypatch.setattr(module, "_read_again", read_again)
    monkeypatch.setattr(module.PartitionTask, "_log_start", lambda _: 0)
    tasks = tasks_on(NOBODY, "raftlog", tmp_path)
    tasks.query = replace(tasks.query, partitions=2)
    tasks.tell({0: Instructions(controls=(_RUNS,))})
    tasks.run(log[:-1])
    tasks.tell({0: Instructions(controls=(_REGISTER,))})
    tasks.in_one_batch()
    tasks.tell({0: Instructions()})
    assert not any(read), "it is held"
    tasks.in_one_batch()
    if starts:
        assert [type(ack) for ack in _acks(tasks.tell({0: Instructions(controls=(_ACTIVATE,))}))] == [Active]
    else:
        assert [type(ack) for ack in _acks(tasks.run(log[-1:]))] == [Failed]
    assert any(read)

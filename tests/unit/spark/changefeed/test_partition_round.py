"""A task without Spark: what it answers for records that it is given, and for what it misses."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
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
import tidegate.spark.changefeed.task.registry_ids
import tidegate.spark.changefeed.task.round_state
from sim.workloads.bank import Bank, BankOptions
from stack.kafka import KafkaBroker
from tests.destinations import DESTINATIONS
from tests.e2e.topics import cut
from tests.logs import Record, eventful_store, simulate
from tests.unit.client.topics import create_topic
from tests.unit.spark.one_partition import NOBODY, Tasks, tasks_on
from tidegate.changefeed.encoding.confluent import SubjectSchema
from tidegate.errors import (
    BrokerUnavailable,
    FeedError,
    QueryEnded,
    RegistryAway,
    StateError,
    TidegateError,
    TopologyError,
)
from tidegate.processor.batch import StepResult
from tidegate.processor.processor import PartitionProcessor
from tidegate.spark.changefeed.partition_round import run_partitions
from tidegate.spark.changefeed.rounds import Instructions, Round, RoundId
from tidegate.spark.changefeed.task.answers import Answer
from tidegate.spark.changefeed.task.log_records import TASK_COLUMNS
from tidegate.spark.platform.faults import read_fault
from tidegate.spark.platform.state_files import StateFiles
from tidegate.spark.platform.task_clock import STAGES

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
    """What `time` says where only pauses take any: a busy machine is no slower by it."""

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

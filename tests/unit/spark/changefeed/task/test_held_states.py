"""States that Python workers keep between rounds: in a bound of bytes, and followed where another one went
on."""

from __future__ import annotations

import gc
import json
import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
from pyarrow import fs

from sim.workloads.bank import Bank, BankOptions
from tests.logs import Record, eventful_store, simulate
from tests.unit.spark.one_partition import NOBODY, Tasks, tasks_on
from tidegate.processor.config import ProcessorConfig
from tidegate.processor.processor import PartitionProcessor
from tidegate.spark.changefeed.rounds import Instructions
from tidegate.spark.changefeed.task import round_state
from tidegate.spark.changefeed.task.answers import Answer
from tidegate.spark.changefeed.task.held_states import HeldState, HeldStates, keep, take_out
from tidegate.spark.platform.state_files import LoadedRows, StateFiles

_SEED: Final = 11
_RECORDS_AT_ONCE: Final = 20
_PARTITIONS: Final = range(4)
_NOTHING: Final = {0: Instructions()}
#: What differs between two attempts of a round.
_OF_ATTEMPTS: Final = ("head", "figures")


@pytest.fixture(scope="module")
def records() -> list[Record]:
    """The log of one partition: some ranges of a bank."""
    bank = Bank(BankOptions(accounts=40, ranges=6), _SEED)
    (log,) = simulate(bank, eventful_store(1), seed=_SEED, transactions=120).partitions
    return list(log)


@pytest.fixture
def rows(tmp_path: Path, records: list[Record]) -> LoadedRows:
    """The state that the log makes."""
    tasks = tasks_on(NOBODY, "raftlog", tmp_path)
    tasks.run(records)
    return _files(tasks).load(tasks.head)


def _files(tasks: Tasks) -> StateFiles:
    filesystem, root = fs.FileSystem.from_uri(tasks.query.root)
    return StateFiles(filesystem, root, 0)


def _figures(answers: list[Answer]) -> dict[str, Any]:
    (figures,) = [json.loads(answer.body) for answer in answers if answer.kind == "figures"]
    return dict(figures)


def _held(state: LoadedRows) -> HeldState:
    stored = [(table, key, value) for (table, key), value in state.rows.items()]
    processor = PartitionProcessor.restore(0, 1, ProcessorConfig(), stored)
    return HeldState(processor, state, may_have_old=False)


def _copy(content: bytes) -> bytes:
    return bytes(bytearray(content))


def test_those_that_were_used_longest_ago_make_room(rows: LoadedRows) -> None:
    states: HeldStates = {}
    one = _held(rows).memory_bytes
    for partition in _PARTITIONS:
        keep(states, "query", partition, _held(rows), 2 * one)
    assert [partition for _, partition in states] == [2, 3]
    used = take_out(states, "query", 2)
    assert used is not None
    keep(states, "query", 2, used, 2 * one)
    keep(states, "query", 0, _held(rows), 2 * one)
    assert [partition for _, partition in states] == [2, 0]
    assert sum(each.memory_bytes for each in states.values()) <= 2 * one


def test_a_state_without_room_is_not_kept(rows: LoadedRows) -> None:
    states: HeldStates = {}
    held = _held(rows)
    keep(states, "query", 0, held, held.memory_bytes - 1)
    assert states == {}
    keep(states, "query", 0, held, held.memory_bytes)
    assert len(states) == 1


def test_a_state_without_room_frees_no_other(rows: LoadedRows) -> None:
    states: HeldStates = {}
    small, large = _held(LoadedRows({})), _held(rows)
    keep(states, "query", 0, small, large.memory_bytes - 1)
    keep(states, "query", 1, large, large.memory_bytes - 1)
    assert [*states] == [("query", 0)]


def test_queries_of_one_python_worker_keep_their_states_side_by_side(rows: LoadedRows) -> None:
    states: HeldStates = {}
    one, other = _held(rows), _held(rows)
    keep(states, "one", 0, one, 2 * one.memory_bytes)
    keep(states, "other", 0, other, 2 * one.memory_bytes)
    assert take_out(states, "other", 0) is other
    assert take_out(states, "one", 0) is one


def test_a_state_takes_about_the_memory_that_is_counted(rows: LoadedRows) -> None:
    gc.collect()
    tracemalloc.start()
    try:
        own = [(table, _copy(key), _copy(value)) for (table, key), value in rows.rows.items()]
        held = _held(rows._replace(rows={(table, key): value for table, key, value in own}))
        del own
        gc.collect()
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert 0.5 < held.memory_bytes / taken < 2


def test_rounds_without_room_for_a_state_have_the_same_answers(
    tmp_path: Path, records: list[Record], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One query keeps its state, another one has no room for it."""
    kept, without = (tasks_on(NOBODY, "raftlog", tmp_path / name) for name in ("kept", "without"))
    without.query = replace(without.query, held_bytes=0)
    held: dict[str, HeldStates] = {"kept": {}, "without": {}}
    found: dict[str, list[str]] = {"kept": [], "without": []}
    for begin in range(0, len(records), _RECORDS_AT_ONCE):
        said = []
        for name, tasks in (("kept", kept), ("without", without)):
            monkeypatch.setattr(round_state, "_held", held[name])
            answers = tasks.run(records[begin : begin + _RECORDS_AT_ONCE])
            found[name].append(_figures(answers)["found"])
            said.append([answer for answer in answers if answer.kind not in _OF_ATTEMPTS])
        assert said[0] == said[1]
    assert set(found["kept"][1:]) == {"kept"}
    assert set(found["without"][1:]) == {"loaded"}
    assert held["without"] == {}


def test_a_python_worker_follows_what_another_one_did(
    tmp_path: Path, records: list[Record], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two of them have the rounds of a partition in turn, two rounds each."""
    tasks, alone = (tasks_on(NOBODY, "raftlog", tmp_path / name) for name in ("two", "one"))
    workers: list[HeldStates] = [{}, {}]
    figures = []
    for number, begin in enumerate(range(0, len(records), _RECORDS_AT_ONCE)):
        some = records[begin : begin + _RECORDS_AT_ONCE]
        monkeypatch.setattr(round_state, "_held", workers[number // 2 % 2])
        answers = tasks.run(some)
        figures.append(_figures(answers))
        monkeypatch.setattr(round_state, "_held", {})
        expected = alone.run(some)
        assert [answer for answer in answers if answer.kind not in _OF_ATTEMPTS] == [
            answer for answer in expected if answer.kind not in _OF_ATTEMPTS
        ]
    assert [each["found"] for each in figures[:6]] == ["new", "kept", "loaded", "kept", "followed", "kept"]
    assert {each["found"] for each in figures[5::2]} == {"kept"}
    assert {each["files_read"] for each in figures[4::2]} <= {1, 2}, "files since, or a base and those since"
    assert _files(tasks).load(tasks.head).rows == _files(alone).load(alone.head).rows


def test_a_failed_round_keeps_nothing(
    tmp_path: Path, records: list[Record], monkeypatch: pytest.MonkeyPatch
) -> None:
    held: HeldStates = {}
    monkeypatch.setattr(round_state, "_held", held)
    tasks = tasks_on(NOBODY, "raftlog", tmp_path)
    tasks.run(records[:_RECORDS_AT_ONCE])
    assert list(held) == [(tasks.query.id, 0)]
    (tmp_path / "state/0").rename(tmp_path / "elsewhere")
    (tmp_path / "state/0").write_bytes(b"in the way")
    assert [answer.kind for answer in tasks.tell(_NOTHING)] == ["fault"]
    assert held == {}


def test_a_small_state_has_a_short_chain(tmp_path: Path, records: list[Record]) -> None:
    """A Python worker that has none of it reads few files."""
    tasks = tasks_on(NOBODY, "raftlog", tmp_path)
    tasks.run(records)
    for _ in range(40):
        tasks.tell(_NOTHING)
        assert _files(tasks).load(tasks.head).deltas <= 9


def test_the_chain_of_a_large_state_is_as_long_as_a_base_is_dear(
    tmp_path: Path, records: list[Record], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(round_state, "_ROWS_OF_A_FILE", 1)
    monkeypatch.setattr(round_state, "_LEAST_DELTAS", 2)
    tasks = tasks_on(NOBODY, "raftlog", tmp_path)
    tasks.run(records)
    count = len(_files(tasks).load(tasks.head).rows)
    deltas = []
    for _ in range(3 * count):
        tasks.tell(_NOTHING)
        deltas.append(_files(tasks).load(tasks.head).deltas)
    assert 2 < max(deltas) == min(count, 50)

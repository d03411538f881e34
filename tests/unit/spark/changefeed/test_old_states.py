"""Files of old states: they are removed while the query runs, and both kept states stay whole."""

from __future__ import annotations

import logging
from copy import copy
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Final

import pytest
from pyarrow import fs

from sim.workloads.bank import Bank, BankOptions
from tests.logs import Record, eventful_store, simulate
from tests.unit.spark.one_partition import NOBODY, Tasks, tasks_on
from tidegate.spark.changefeed.rounds import Instructions, RoundId
from tidegate.spark.changefeed.task import round_state
from tidegate.spark.platform.state_files import StateFiles

_SEED: Final = 7
_BATCHES: Final = 60
_NOTHING: Final = {0: Instructions()}


@pytest.fixture(scope="module")
def records() -> list[Record]:
    """The log of one partition: some ranges of a bank."""
    bank = Bank(BankOptions(accounts=20, ranges=3), _SEED)
    (log,) = simulate(bank, eventful_store(1), seed=_SEED, transactions=40).partitions
    return list(log)


@pytest.fixture
def few_deltas(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bases are frequent, so that few rounds show what happens around them."""
    monkeypatch.setattr(round_state, "_MOST_DELTAS", 4)


def _files(tasks: Tasks) -> StateFiles:
    filesystem, root = fs.FileSystem.from_uri(tasks.query.root)
    return StateFiles(filesystem, root, 0)


def _rounds(tasks: Tasks, count: int) -> int:
    """Run so many batches without records; return the largest number of files on the way."""
    most = 0
    for _ in range(count):
        tasks.tell(_NOTHING)
        most = max(most, len(_files(tasks).names()))
    return most


def test_a_query_that_runs_for_long_has_few_files(tmp_path: Path, records: list[Record]) -> None:
    """All rounds are in one Python worker, which loads nothing."""
    tasks = tasks_on(NOBODY, "raftlog", tmp_path)
    tasks.run(records)
    assert _rounds(tasks, 400) <= 110
    assert len(list((tmp_path / "state/0").iterdir())) <= 110
    assert len(_files(tasks).load(tasks.head).rows) > 3


def test_states_that_change_as_a_whole_in_each_batch_are_removed_too(
    tmp_path: Path, records: list[Record], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A base in every batch would never be two batches old."""
    monkeypatch.setattr(round_state, "_FEW_CHANGES", -1)
    monkeypatch.setattr(round_state, "_MOST_DELTAS", 0)
    tasks = tasks_on(NOBODY, "raftlog", tmp_path)
    tasks.run(records)
    assert _rounds(tasks, 40) <= 5


def test_the_files_of_a_version_that_kept_them_all_are_removed_some_at_a_time(
    tmp_path: Path, records: list[Record], monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks = tasks_on(NOBODY, "raftlog", tmp_path)
    tasks.run(records)
    with monkeypatch.context() as kept:
        kept.setattr(round_state, "_REMOVED_AT_ONCE", 0)
        _rounds(tasks, 476)
    numbers: list[int] = []
    while not numbers or numbers[-1] > 110:
        _rounds(tasks, 1)
        numbers.append(len(_files(tasks).names()))
    assert all(before - after <= 50 for before, after in pairwise(numbers))
    assert len(numbers) < 70


@pytest.mark.sampled(4)
@pytest.mark.parametrize("seed", range(6))
def test_both_kept_states_are_whole_after_every_round(
    tmp_path: Path, records: list[Record], few_deltas: None, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rounds are in any Python worker, some run twice, and some die amid a removal.

    A task that dies then has removed some of the files, the oldest first.
    """
    rng = Random(seed)
    tasks = tasks_on(NOBODY, "raftlog", tmp_path)
    workers: list[dict[tuple[str, int], object]] = [{}, {}]
    accounts = ["", ""]
    for batch in range(_BATCHES):
        for number in range(rng.randint(1, 3)):
            monkeypatch.setattr(round_state, "_held", rng.choice(workers))
            begin = tasks.head
            for _ in range(1 + (rng.random() < 0.3)):
                monkeypatch.setattr(round_state, "_REMOVED_AT_ONCE", rng.choice((0, 1, 2, 50)))
                tasks.head = begin
                if number:
                    tasks.tell(_NOTHING, RoundId(batch, number))
                else:
                    tasks.run(records[3 * batch : 3 * batch + 3], at=RoundId(batch, number))
            for head in filter(None, accounts[-2:]):
                _files(tasks).load(head)
        accounts.append(tasks.head)
    assert len(_files(tasks).names()) < 60, "removal has begun"


@pytest.mark.parametrize("after", range(1, 14))
def test_the_states_of_a_second_driver_are_whole_until_the_batch_behind_its_last_one_is_done(
    tmp_path: Path, records: list[Record], few_deltas: None, after: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It runs a batch that the first driver has finished again, and its account replaces the other one.

    Its tasks write a delta where those of the first driver write a base, as after fewer changes.
    """
    tasks = tasks_on(NOBODY, "raftlog", tmp_path)
    tasks.run(records)
    _rounds(tasks, after)
    second = copy(tasks)
    second.query = replace(second.query, id="the second driver")
    tasks.tell(_NOTHING)
    with monkeypatch.context() as fewer:
        fewer.setattr(round_state, "_MOST_DELTAS", 99)
        second.tell(_NOTHING)
    tasks.tell(_NOTHING)
    _files(tasks).load(second.head)


def test_a_file_that_cannot_be_removed_does_not_end_the_round(
    tmp_path: Path,
    records: list[Record],
    few_deltas: None,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    tasks = tasks_on(NOBODY, "raftlog", tmp_path)
    tasks.run(records)
    with monkeypatch.context() as refused, caplog.at_level(logging.WARNING):
        refused.setattr(StateFiles, "remove_before", _refuse)
        _rounds(tasks, 12)
    sentences = [each for each in caplog.messages if "cannot be removed" in each]
    assert 1 <= len(sentences) <= 3, "one for each base"
    assert _rounds(tasks, 12) > 12
    assert len(_files(tasks).names()) < 14


def _refuse(*_: object) -> bool:
    raise PermissionError(13, "Permission denied")

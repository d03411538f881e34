"""A driver whose rounds are run by hand: what it makes of partitions that miss something."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pytest
from py4j.protocol import Py4JError
from pyarrow import fs
from pyspark.errors import StreamingQueryException

import tidegate.spark.changefeed.batch_driver
from tidegate.changefeed.definition.feed import FeedEpoch, FeedId
from tidegate.changefeed.lifecycle.control import ControlMessage, Remove, read_control
from tidegate.client.kafka.connection import KafkaConnection
from tidegate.client.local_files import LocalFiles
from tidegate.client.refused_records import KeptRecord, kept_names, read_kept
from tidegate.errors import BrokerUnavailable, QueryEnded, RegistryAway, StateError
from tidegate.processor.batch import StepResult
from tidegate.processor.config import ProcessorConfig
from tidegate.processor.containment import Input, InputPlace, StepBroke
from tidegate.processor.refused import RefusedRecord, Source
from tidegate.processor.state.exchange_codec import encode_exchange
from tidegate.raftlog.entry import RaftIndex, RangeId
from tidegate.ranges.handoff import Claim
from tidegate.spans import Span
from tidegate.spark.changefeed.batch_driver import BatchDriver, QueryEnding
from tidegate.spark.changefeed.changefeed_query import _why
from tidegate.spark.changefeed.ledger import Account, Ledger
from tidegate.spark.changefeed.query import Query
from tidegate.spark.changefeed.rounds import Instructions, Round, RoundId
from tidegate.spark.changefeed.rounds import Told as Message
from tidegate.spark.changefeed.task.answers import Answer, RoundAnswers
from tidegate.spark.platform.faults import fault_to_bytes

_REMOVAL: Final = Remove(FeedId("bank"), FeedEpoch(1))
_CLAIM: Final = encode_exchange(Claim(RangeId(2), RangeId(1), RaftIndex(9), Span(b"a", b"b")))[1]
_NO_RECORDS: Final[Any] = None
_AWAY: Final = RegistryAway("The registry is away.")
_PLACE: Final = "ArithmeticError (a.py, line 1)"
_REFUSED: Final = RefusedRecord(Source.LOG, 7, 1_700, b"key", b"\xff", _PLACE, "odd")


class Told:
    """The feeds of the test: what partitions are to be told, and what publishing raises."""

    def __init__(self) -> None:
        self.messages: list[tuple[ControlMessage, Sequence[int]]] = []
        self.troubles: list[Exception] = []
        self.taken: list[Answer] = []
        self.pausing = frozenset[FeedId]()
        self.begins = False

    def announcements(self) -> Sequence[tuple[ControlMessage, Sequence[int]]]:
        return self.messages

    def reached(self, ends: Callable[[], Mapping[int, int]]) -> bool:
        return self.begins

    def paused(self) -> frozenset[FeedId]:
        return self.pausing

    def clusters(self) -> dict[str, str]:
        return {}

    def note_answers(self, answers: Iterable[Answer]) -> None:
        self.taken += answers

    def publish(self) -> None:
        if self.troubles:
            raise self.troubles.pop(0)


class ByHand(BatchDriver):
    """``tasks`` stands where Spark does: it is given the round and the partitions that are due."""

    def __init__(
        self, root: Path, feeds: Told, tasks: Callable[[Round, frozenset[int] | None], list[Answer]]
    ) -> None:
        query = Query("q", KafkaConnection(), "raftlog", 2, root.as_uri(), ProcessorConfig())
        self.ledger = Ledger(fs.LocalFileSystem(), str(root))
        super().__init__(query, self.ledger, feeds)
        self._tasks = tasks

    def _run(self, round_: Round, records: Any, account: Account, due: frozenset[int] | None) -> list[Answer]:
        return self._tasks(round_, due)


def _fault(partition: int, error: Any) -> Answer:
    return Answer(partition, "fault", fault_to_bytes(error))


def _heads(round_: Round, partitions: Iterable[int]) -> list[Answer]:
    return [Answer(partition, "head", round_.id.name.encode()) for partition in partitions]


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tidegate.spark.changefeed.batch_driver, "_AGAIN_S", 0.0)
    monkeypatch.setattr(tidegate.spark.changefeed.batch_driver, "_DOUBT_S", 0.0)


def test_only_partitions_that_miss_something_run_once_more(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    runs: list[tuple[bool, frozenset[int] | None]] = []

    def tasks(round_: Round, due: frozenset[int] | None) -> list[Answer]:
        runs.append((round_.records, due))
        if round_.records and len(runs) < 4:
            return [*_heads(round_, () if due else {0}), _fault(1, _AWAY)]
        return _heads(round_, due or {0, 1})

    driver = ByHand(tmp_path, feeds := Told(), tasks)
    with caplog.at_level(logging.WARNING):
        driver(_NO_RECORDS, 0)
    everything = (False, None)
    assert runs == [(True, None), (True, {1}), (True, {1}), (True, {1}), everything]
    assert [record.getMessage() for record in caplog.records] == 3 * [
        "The registry is away. The batch waits for that; it is tried again in 0 s."
    ]
    assert sorted(answer.partition for answer in feeds.taken[:2]) == [0, 1]
    assert set(driver.ledger.account(0).heads) == {0, 1}


def test_the_waits_before_a_round_runs_again_grow_until_it_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Each try writes the same rows once more."""
    monkeypatch.setattr(tidegate.spark.changefeed.batch_driver, "_AGAIN_S", 0.01)
    monkeypatch.setattr(tidegate.spark.changefeed.batch_driver, "_LONGEST_S", 0.04)
    troubles = {True: 4, False: 1}  # of the round of records, and of the one behind it

    def tasks(round_: Round, due: frozenset[int] | None) -> list[Answer]:
        if troubles[round_.records]:
            troubles[round_.records] -= 1
            return [_fault(0, _AWAY)]
        return _heads(round_, due or {0})

    with caplog.at_level(logging.WARNING):
        ByHand(tmp_path, Told(), tasks)(_NO_RECORDS, 0)
    waits = [record.getMessage().rpartition(" again in ")[2] for record in caplog.records]
    assert waits == ["0.01 s.", "0.02 s.", "0.04 s.", "0.04 s.", "0.01 s."]


class _Dropping(logging.Handler):
    """Has a feed dropped once the driver says that it waits."""

    def __init__(self, feeds: Told) -> None:
        super().__init__(logging.WARNING)
        self._feeds = feeds

    def emit(self, record: logging.LogRecord) -> None:
        self._feeds.messages = [(_REMOVAL, (0,))]


def test_a_feed_that_is_dropped_ends_a_long_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tidegate.spark.changefeed.batch_driver, "_AGAIN_S", 3_600.0)
    monkeypatch.setattr(tidegate.spark.changefeed.batch_driver, "_LOOK_S", 0.01)
    feeds = Told()

    def tasks(round_: Round, _: frozenset[int] | None) -> list[Answer]:
        if not round_.records:
            return _heads(round_, {0})
        if not round_.instructions:
            return [_fault(0, _AWAY)]
        feeds.messages = []  # partitions have been told
        return _heads(round_, {0})

    logger, dropping = logging.getLogger("tidegate.spark"), _Dropping(feeds)
    logger.addHandler(dropping)
    try:
        ByHand(tmp_path, feeds, tasks)(_NO_RECORDS, 0)
    finally:
        logger.removeHandler(dropping)
    assert not feeds.messages


def test_a_feed_that_is_dropped_meanwhile_holds_a_batch_no_longer(tmp_path: Path) -> None:
    feeds, told = Told(), []

    def tasks(round_: Round, due: frozenset[int] | None) -> list[Answer]:
        if not round_.records:
            return []
        told.append(
            [read_control(each.message) for _, of in round_.instructions.items() for each in of.controls]
        )
        if not round_.instructions:
            feeds.messages = [(_REMOVAL, [0, 1])]
            return [_fault(1, _AWAY)]
        feeds.messages = []
        return _heads(round_, due or ())

    driver = ByHand(tmp_path, feeds, tasks)
    driver(_NO_RECORDS, 0)
    assert told == [[], [_REMOVAL, _REMOVAL]]
    assert driver.ledger.account(0).controls == 1


def test_a_batch_that_is_run_again_is_told_of_dropped_feeds_too(tmp_path: Path) -> None:
    """A driver that was started anew, since the batch would wait for ever."""
    ledger = Ledger(fs.LocalFileSystem(), str(tmp_path))
    ledger.tell(Round(RoundId(0, 0), records=True))
    feeds, told = Told(), []
    feeds.messages = [(_REMOVAL, [1])]

    def tasks(round_: Round, due: frozenset[int] | None) -> list[Answer]:
        told.append((round_.records, sorted(round_.instructions)))
        feeds.messages = []
        return []

    ByHand(tmp_path, feeds, tasks)(_NO_RECORDS, 0)
    assert told[0] == (True, [1])


def test_new_feeds_that_have_waited_for_the_present_begin_in_the_batch_that_comes_there(
    tmp_path: Path,
) -> None:
    """There may be no further batch: `--available-now` ends with this one."""
    feeds, rounds = Told(), list[tuple[bool, int]]()
    feeds.begins = True

    def tasks(round_: Round, due: frozenset[int] | None) -> list[Answer]:
        rounds.append((round_.records, sum(len(each.controls) for each in round_.instructions.values())))
        if round_.records:
            feeds.messages = [(_REMOVAL, [0, 1])]
            return [*_heads(round_, {0, 1}), Answer(0, "exchange", _CLAIM)]
        if any(each.controls for each in round_.instructions.values()):
            feeds.messages = []
        return _heads(round_, round_.instructions)

    driver = ByHand(tmp_path, feeds, tasks)
    driver(_NO_RECORDS, 0)
    exchanges, told, everything = (False, 0), (False, 2), (False, 0)
    assert rounds == [(True, 0), exchanges, told, everything]
    assert driver.ledger.account(0).controls == 1


def test_a_batch_whose_driver_died_amid_such_rounds_goes_on_with_them(tmp_path: Path) -> None:
    """A partition that was told of the feed is held, and a later batch would give the feed up."""
    ledger = Ledger(fs.LocalFileSystem(), str(tmp_path))
    ledger.tell(Round(RoundId(0, 0), records=True))
    told = Instructions(controls=(Message(0, _REMOVAL.to_bytes()),))
    ledger.tell(Round(RoundId(0, 1), instructions={0: told}))
    feeds, rounds = Told(), list[Round]()

    def tasks(round_: Round, due: frozenset[int] | None) -> list[Answer]:
        rounds.append(round_)
        feeds.messages = [(_REMOVAL, [1])] if len(rounds) == 2 else []
        return _heads(round_, {0, 1})

    driver = ByHand(tmp_path, feeds, tasks)
    driver(_NO_RECORDS, 0)
    assert [(each.records, sorted(each.instructions)) for each in rounds] == [
        (True, []),
        (False, [0]),
        (False, [1]),
        (False, [0, 1]),
    ]
    assert driver.ledger.account(0).controls == 2


def test_what_a_stored_round_does_not_pass_on_is_passed_on_by_the_next(tmp_path: Path) -> None:
    """A batch that runs again may find out more than the run whose rounds are stored."""
    ledger = Ledger(fs.LocalFileSystem(), str(tmp_path))
    ledger.tell(Round(RoundId(0, 0), records=True))
    ledger.tell(Round(RoundId(0, 1), instructions={0: Instructions(exchanges=(Message(0, _CLAIM),))}))
    other = encode_exchange(Claim(RangeId(4), RangeId(3), RaftIndex(9), Span(b"c", b"d")))[1]
    passed_on: list[bytes] = []

    def tasks(round_: Round, due: frozenset[int] | None) -> list[Answer]:
        passed_on.extend(told.message for each in round_.instructions.values() for told in each.exchanges)
        found = [_CLAIM, other] if round_.records else []
        return [*_heads(round_, {0, 1}), *(Answer(0, "exchange", message) for message in found)]

    ByHand(tmp_path, Told(), tasks)(_NO_RECORDS, 0)
    assert passed_on == [_CLAIM, other]


def test_what_no_waiting_mends_ends_the_query_with_its_own_words(tmp_path: Path) -> None:
    torn = StateError("x.arrow is torn.")
    driver = ByHand(tmp_path, Told(), lambda *_: [_fault(0, _AWAY), _fault(1, torn)])
    with pytest.raises(StateError, match=r"^x\.arrow is torn\.$"):
        driver(_NO_RECORDS, 0)
    assert isinstance(driver.failure, StateError)


def _ended_by(root: Path, error: Exception) -> Exception:
    """Return what is said of a query whose rounds raise that."""

    def tasks(*_: object) -> list[Answer]:
        raise error

    driver = ByHand(root, Told(), tasks)
    with pytest.raises(type(error)):
        driver(_NO_RECORDS, 0)
    return _why(driver, StreamingQueryException("[STREAM_FAILED] Query terminated\nJava's trace"))


def test_a_job_that_spark_gives_up_ends_the_query_with_one_sentence_of_java(tmp_path: Path) -> None:
    lost = Py4JError(
        "An error occurred while calling o1.collectToPython.\n"
        ": org.apache.spark.SparkException: Job aborted due to stage failure: ExecutorLostFailure (executor "
        "7 exited): Container killed by YARN for exceeding memory limits\n"
        "\tat org.apache.spark.scheduler.DAGScheduler.abortStage(DAGScheduler.scala)\n"
    )
    why = _ended_by(tmp_path, lost)
    assert isinstance(why, QueryEnded)
    assert str(why) == (
        "Spark ended the query: org.apache.spark.SparkException: Job aborted due to stage failure: "
        "ExecutorLostFailure (executor 7 exited): Container killed by YARN for exceeding memory limits. "
        "Nothing is lost: the next start goes on where the last batch ended."
    )


@pytest.mark.parametrize("error", [StateError("x.arrow is torn."), ArithmeticError("a defect")])
def test_an_error_of_tidegates_own_stays_what_it_is(tmp_path: Path, error: Exception) -> None:
    assert _ended_by(tmp_path, error) is error


def test_markers_wait_for_what_is_away(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    feeds = Told()
    feeds.troubles = [_AWAY, BrokerUnavailable("Kafka is away.")]
    driver = ByHand(tmp_path, feeds, lambda round_, _: _heads(round_, {0}))
    with caplog.at_level(logging.WARNING):
        driver(_NO_RECORDS, 0)
    assert [record.getMessage().partition(" The batch")[0] for record in caplog.records] == [
        "The registry is away.",
        "Kafka is away.",
    ]
    assert driver.ledger.account(0).heads


class _Mending(logging.Handler):
    """Puts back what stands in place of a directory, once the driver says that it waits."""

    def __init__(self, directory: Path) -> None:
        super().__init__(logging.WARNING)
        self.sentences: list[str] = []
        self._directory = directory
        self._aside = directory.with_name("aside")
        directory.rename(self._aside)
        directory.touch()

    def emit(self, record: logging.LogRecord) -> None:
        if not self.sentences:
            self._directory.unlink()
            self._aside.rename(self._directory)
        self.sentences.append(record.getMessage())


@pytest.mark.parametrize("part", ["rounds", "batches"])
def test_a_file_system_that_takes_nothing_is_waited_for(tmp_path: Path, part: str) -> None:
    driver = ByHand(tmp_path, Told(), lambda round_, _: _heads(round_, {0}))
    mending = _Mending(tmp_path / part)
    logger = logging.getLogger("tidegate.spark")
    logger.addHandler(mending)
    try:
        driver(_NO_RECORDS, 0)
    finally:
        logger.removeHandler(mending)
    (sentence,) = mending.sentences
    assert f"/{part}/" in sentence
    assert "cannot be reached" in sentence
    assert "it is tried again" in sentence
    assert driver.ledger.account(0).heads


def test_a_driver_that_is_asked_to_end_waits_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tidegate.spark.changefeed.batch_driver, "_AGAIN_S", 60.0)
    waits = threading.Event()

    def tasks(*_: object) -> list[Answer]:
        waits.set()
        return [_fault(0, _AWAY)]

    driver = ByHand(tmp_path, Told(), tasks)
    ended: list[BaseException] = []

    def run() -> None:
        try:
            driver(_NO_RECORDS, 0)
        except QueryEnding as ending:
            ended.append(ending)

    thread = threading.Thread(target=run)
    thread.start()
    assert waits.wait(60)
    driver.end(60)
    thread.join(60)
    assert ended
    with pytest.raises(StateError, match="is missing"):
        driver.ledger.account(0)


def test_feeds_pause_in_every_round_and_all_partitions_hear_when_they_go_on(
    tmp_path: Path,
) -> None:
    away, feeds = FeedId("away"), Told()
    rounds: list[Round] = []

    def tasks(round_: Round, due: frozenset[int] | None) -> list[Answer]:
        rounds.append(round_)
        return _heads(round_, {0, 1})

    driver = ByHand(tmp_path, feeds, tasks)
    for batch, pausing in enumerate(({away}, {away}, set())):
        feeds.pausing = frozenset(pausing)
        driver(_NO_RECORDS, batch)
    of_batches = [
        [(each.records, each.paused) for each in rounds if each.id.batch == batch] for batch in range(3)
    ]
    paused, none = frozenset({away}), frozenset[FeedId]()
    assert of_batches == [
        [(True, paused), (False, paused)],  # the second one asks for whole checkpoints
        [(True, paused)],
        [(False, none), (True, none)],
    ]
    assert sorted(rounds[3].instructions) == [0, 1]


def test_a_batch_that_is_run_again_is_told_of_the_same_pauses(tmp_path: Path) -> None:
    ledger = Ledger(fs.LocalFileSystem(), str(tmp_path))
    told = Round(RoundId(0, 0), records=True, paused=frozenset({FeedId("away")}))
    ledger.tell(told)
    rounds: list[Round] = []

    def tasks(round_: Round, due: frozenset[int] | None) -> list[Answer]:
        rounds.append(round_)
        return []

    ByHand(tmp_path, Told(), tasks)(_NO_RECORDS, 0)
    assert rounds[0] == told


def _doubted(partition: int, feed: str) -> Answer:
    return Answer(partition, "doubted", json.dumps([feed, f"an odd answer for {feed}"]).encode())


@pytest.mark.parametrize("times", [4, 5])
def test_rows_are_written_again_in_five_attempts_before_their_feed_fails(
    times: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Only the partition that doubts them runs again. Each feed has its own count."""
    runs: list[tuple[frozenset[int] | None, Mapping[int, Mapping[FeedId, str]]]] = []

    def tasks(round_: Round, due: frozenset[int] | None) -> list[Answer]:
        runs.append((due, round_.refused))
        if len(runs) <= times:
            return [*_heads(round_, () if due else {0}), _doubted(1, "odd")]
        return [_doubted(1, "other")] if len(runs) == times + 1 else _heads(round_, due or {0, 1})

    ByHand(tmp_path, feeds := Told(), tasks)(_NO_RECORDS, 0)
    assert [due for due, _ in runs[: times + 2]] == [None, *[frozenset({1})] * (times + 1)]
    refused = runs[times + 1][1]
    if times < 5:
        assert not refused
    else:
        assert set(refused[1]) == {"odd"}
        assert (
            "an odd answer for odd. At least 5 producers had an answer like that" in refused[1][FeedId("odd")]
        )
    assert not [answer for answer in feeds.taken if answer.kind == "doubted"]
    assert "Rows of feed odd in partition 1 are written again: an odd answer for odd" in caplog.text


def test_a_fault_beside_a_doubt_is_waited_for(tmp_path: Path) -> None:
    runs: list[frozenset[int] | None] = []

    def tasks(round_: Round, due: frozenset[int] | None) -> list[Answer]:
        runs.append(due)
        return [_doubted(0, "odd"), _fault(1, _AWAY)] if len(runs) == 1 else _heads(round_, due or {0, 1})

    ByHand(tmp_path, Told(), tasks)(_NO_RECORDS, 0)
    assert runs[1] == frozenset({0, 1})


def _broke(place: InputPlace) -> Answer:
    return Answer(1, "broke", StepBroke(place, place, "odd", _REFUSED).to_bytes())


def _kept(root: Path) -> list[KeptRecord]:
    files = LocalFiles(root / "refused")
    return [read_kept(files, name) for name in kept_names(files)]


def test_the_record_that_broke_a_task_is_kept_aside_and_the_batch_goes_on(tmp_path: Path) -> None:
    runs: list[Round] = []

    def tasks(round_: Round, due: frozenset[int] | None) -> list[Answer]:
        runs.append(round_)
        if len(runs) == 1:
            return [*_heads(round_, {0}), _broke(InputPlace(Input.LOG, 7))]
        return _heads(round_, due or {0, 1})

    driver = ByHand(tmp_path, Told(), tasks)
    driver(_NO_RECORDS, 0)
    assert runs[1].cautions[1].refused == {InputPlace(Input.LOG, 7): "odd"}
    (kept,) = _kept(tmp_path)
    assert (kept.record, kept.topic, kept.partition) == (_REFUSED, "raftlog", 1)


def test_it_is_kept_as_well_where_the_query_ends_with_it(tmp_path: Path) -> None:
    driver = ByHand(tmp_path, Told(), lambda *_: [_broke(InputPlace(Input.LOG, 7))])
    with pytest.raises(StepBroke):
        driver(_NO_RECORDS, 0)
    assert [kept.record for kept in _kept(tmp_path)] == [_REFUSED]


def test_what_a_step_keeps_aside_is_told_by_its_task_and_kept_by_the_driver(tmp_path: Path) -> None:
    answers = RoundAnswers(1, whole_checkpoints_only=False)
    answers.keep(StepResult(None, refused=[_REFUSED]))
    answers.let_go()
    told = [*answers.said]

    def tasks(round_: Round, due: frozenset[int] | None) -> list[Answer]:
        said = [*told, *_heads(round_, due or {0, 1})]
        told.clear()
        return said

    ByHand(tmp_path, Told(), tasks)(_NO_RECORDS, 0)
    assert [kept.record for kept in _kept(tmp_path)] == [_REFUSED]


def test_a_directory_that_cannot_be_written_ends_no_query(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    runs: list[Round] = []

    def tasks(round_: Round, due: frozenset[int] | None) -> list[Answer]:
        runs.append(round_)
        return [_broke(InputPlace(Input.LOG, 7))] if len(runs) == 1 else _heads(round_, due or {0, 1})

    (tmp_path / "refused").write_text("a file")
    driver = ByHand(tmp_path, Told(), tasks)
    driver(_NO_RECORDS, 0)
    assert driver.failure is None
    assert "the record at offset 7 is not kept aside" in caplog.text

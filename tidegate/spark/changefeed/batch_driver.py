"""The driver's work on a micro-batch (docs/protocols/spark-rounds.md, steps B1 to B7).

    B1  read the account of the batch before
    B2  tell partitions of feeds that begin or end, round by round, until nothing about feeds is to be done
    B3  step the batch's records, in all partitions that have some
    B4  pass claims and hand-offs on, round by round, until there are none; in the batch that reaches the
        present, also tell partitions of the new feeds that have waited for that, as in B2
    B5  write the requests to the source
    B6  persist each feed's high-water, and write its marker
    B7  store the account of the batch

What a round tells partitions is stored before the round runs. A batch that runs again has the same rounds.
"""

from __future__ import annotations

import json
import logging
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from threading import Event, Lock
from types import UnionType
from typing import Any, Final, Protocol, TypeVar

from pyspark.sql import DataFrame, SparkSession

from tidegate.changefeed.definition.feed import FeedId
from tidegate.changefeed.lifecycle.control import ControlMessage, Remove
from tidegate.delivery.refused_rows import PRODUCERS, refused_at_last
from tidegate.errors import RetryError, TidegateError
from tidegate.processor.containment import Caution, StepBroke
from tidegate.processor.refused import RefusedRecord
from tidegate.processor.state.exchange_codec import decode_exchange
from tidegate.raftlog.encode import partition_of
from tidegate.ranges.handoff import receiver_of
from tidegate.spark.changefeed.answer_limit import AnswerLimit
from tidegate.spark.changefeed.ledger import Account, Ledger
from tidegate.spark.changefeed.partition_round import run_partitions, run_told
from tidegate.spark.changefeed.query import Query
from tidegate.spark.changefeed.refused_files import refused_records
from tidegate.spark.changefeed.rounds import Instructions, Round, RoundId, Told
from tidegate.spark.changefeed.task.answers import ANSWER_SCHEMA, Answer
from tidegate.spark.platform.faults import read_fault
from tidegate.spark.platform.kafka_source import is_time_overflow

#: The time to wait before the next call to something that does not answer.
_AGAIN_S: Final = 5.0
#: A round that runs again writes its rows again, so the wait before each further try doubles up to this.
_LONGEST_S: Final = 300.0
#: How often such a wait looks for feeds that have ended meanwhile.
_LOOK_S: Final = 5.0
#: The time to wait before doubted rows are written again. It doubles with each further doubt.
_DOUBT_S: Final = 1.0
#: The kinds of answers of a partition that has to run the round once more.
_UNDONE: Final = ("fault", "refused", "doubted", "broke")
_TIME_OVERFLOW: Final = (
    "The log has a record whose time Spark cannot hold: it is more than 292,277 years from 1970. Tasks read "
    "batch %d from Kafka themselves, and take such a record as every engine does."
)
_RECORDS: Final = ("partition", "offset", "unix_millis(timestamp) AS timestamp_ms", "key", "value")

_log = logging.getLogger("tidegate.spark")
ResultT = TypeVar("ResultT")


class Feeds(Protocol):
    """The feeds that the query runs, as a batch needs them."""

    def announcements(self) -> Sequence[tuple[ControlMessage, Sequence[int]]]:
        """Return the messages for partitions that are due now, each with its partitions.

        Also takes the other steps that are due for feeds.
        """

    def paused(self) -> frozenset[FeedId]:
        """Return the feeds that get no rows now, since their sinks do not take rows."""

    def clusters(self) -> Mapping[str, str]:
        """Return the ids of the clusters that feeds write to, empty for the query's own."""

    def reached(self, ends: Callable[[], Mapping[int, int]], /) -> bool:
        """Note that the records of a batch are stepped, up to the offsets that ``ends`` tells.

        Returns whether new feeds have waited for that, and begin now.
        """

    def note_answers(self, answers: Iterable[Answer]) -> None:
        """Note the acknowledgements and checkpoints of a finished round."""

    def publish(self) -> None:
        """Write requests to the source, persist high-waters and write markers."""


class Observer(Protocol):
    """Is told how far batches are (`tidegate.spark.changefeed.progress`)."""

    def round_begins(self) -> None: ...
    def round_done(self, stage: str, seconds: float, answers: Iterable[Answer]) -> None: ...
    def spent(self, stage: str, seconds: float) -> None: ...
    def batch_done(self, batch: int) -> None: ...


class QueryEnding(Exception):
    """Raised in place of a batch, since the query was asked to end."""


class BatchDriver:
    """The function of ``foreachBatch``: runs batches one after the other.

    Spark may run a batch more than once.
    """

    def __init__(
        self,
        query: Query,
        ledger: Ledger,
        feeds: Feeds,
        look: Callable[[], object] = lambda: None,
        observer: Observer | None = None,
        name: str = "tidegate",
        ends: Callable[[int], Mapping[int, int]] = lambda _: {},
    ) -> None:
        """``look`` is called before each batch, and raises when the log has become another topic.

        ``name`` is the query's name in Spark. ``ends`` tells where a batch ends in each partition.
        """
        self._query = query
        self._ledger = ledger
        self._feeds = feeds
        self._look = look
        self._observer = observer
        self._name = name
        self._ends = ends
        #: The end of the batch in each partition, if Spark cannot read its records.
        self._read_ends: Mapping[int, int] | None = None
        self._begins_feeds = False  # partitions are told of new feeds after the batch's records too
        self._aside = refused_records(query)
        self._limit = AnswerLimit()
        #: The exception with which a batch ended the query, if one did.
        self.failure: Exception | None = None
        self._unheard = True  # no round has asked partitions for their whole checkpoints yet
        self._paused = frozenset[FeedId]()  # feeds that some partition has detached
        self._exchanges: list[bytes] = []
        self._running = Lock()
        self._ending = Event()
        self._last: int | None = None

    def __call__(self, records: DataFrame, batch: int) -> None:
        """Run the batch. Raises the exception that a task or the driver met, which ends the query.

        While a broker, registry or file system does not answer, the batch waits.
        """
        with self._running:
            self._require_wanted()
            try:
                self._run_batch(records, batch)
            except Exception as failure:
                self.failure = failure
                raise

    def end(self, patience_s: float) -> int | None:
        """Let no further batch begin, and wait at most ``patience_s`` seconds for the one that runs.

        If a batch is cut off, Spark runs it again. Returns the last finished batch, which Spark itself may
        not have committed yet.
        """
        self._ending.set()
        if self._running.acquire(timeout=patience_s):
            self._running.release()
        return self._last

    def _run_batch(self, records: DataFrame, batch: int) -> None:
        self._patiently(self._look)
        account = self._patiently(lambda: self._ledger.account(batch - 1))
        self._exchanges, self._read_ends = [], None
        self._begins_feeds = False
        stepped, number = False, 0
        while (round_ := self._next(RoundId(batch, number), account, stepped=stepped)) is not None:
            began = time.monotonic()
            if self._observer is not None:
                self._observer.round_begins()
            round_, answers = self._answered(round_, records, account)
            if self._observer is not None:
                self._observer.round_done(_stage(round_), time.monotonic() - began, answers)
            account = self._after(round_, answers, account)
            stepped |= round_.records
            if round_.records:
                self._begins_feeds = self._patiently(partial(self._feeds.reached, partial(self._ends, batch)))
            elif stepped and _stage(round_) == "feeds":  # a stored round: a driver died amid such rounds
                self._begins_feeds = True
            number += 1
        began = time.monotonic()
        self._patiently(self._feeds.publish)
        closed = partial(self._ledger.close_batch, batch, account)
        self._patiently(closed)
        if self._observer is not None:
            self._observer.spent("markers", time.monotonic() - began)
            self._observer.batch_done(batch)
        self._last = batch

    def _next(self, round_id: RoundId, account: Account, *, stepped: bool) -> Round | None:
        """Return the next round of the batch: the stored one if the batch ran before, else a new one."""
        round_ = self._patiently(lambda: self._ledger.told(round_id))
        if round_ is not None:
            return self._without_dropped(round_, account)
        if stepped:
            round_ = self._patiently(lambda: self._after_records(round_id, account))
        else:
            round_ = self._patiently(lambda: self._new(round_id, account))
        return None if round_ is None else self._patiently(partial(self._ledger.tell_first, round_))

    def _without_dropped(self, round_: Round, account: Account) -> Round:
        """Add the ends of all feeds that have ended to a round with records. Return any other round as it is.

        A feed that was dropped may be the reason why the round has to run once more. Rows of the other feeds
        stay the same.
        """
        if not round_.records:
            return round_
        ends = self._patiently(lambda: self._controls(account, only=Remove))
        amended = replace(round_, instructions=ends)
        if amended != round_:
            self._patiently(partial(self._ledger.tell, amended))
        return amended

    def _answered(self, round_: Round, records: DataFrame, account: Account) -> tuple[Round, list[Answer]]:
        """Run the round until every partition has answered; return the round as it last ran, and the answers.

        A partition whose fault may pass runs again until the fault has passed. A partition where a row was
        refused runs again and fails the feed (step S6). A partition where a row was doubted writes
        the rows again (S5a). A partition where a step broke runs again with more caution. Raises a fault that
        no waiting mends.
        """
        answers: list[Answer] = []
        doubts = Counter[tuple[int, str]]()
        due: frozenset[int] | None = None
        wait_s = _AGAIN_S
        while True:
            came = self._run(replace(round_, clusters=self._feeds.clusters()), records, account, due)
            answers += [answer for answer in came if answer.kind not in _UNDONE]
            doubted = [answer for answer in came if answer.kind == "doubted"]
            refused = [answer for answer in came if answer.kind == "refused"]
            refused += _refused_at_last(doubted, doubts)
            broken = {
                answer.partition: StepBroke.from_bytes(answer.body)
                for answer in came
                if answer.kind == "broke"
            }
            for partition, broke in broken.items():
                if broke.record is not None:
                    self._aside.keep(partition, broke.record)
            round_ = _with_cautions(_with_refused(round_, refused), broken)
            faults = {answer.partition: read_fault(answer.body) for answer in came if answer.kind == "fault"}
            due = frozenset(answer.partition for answer in came if answer.kind in _UNDONE)
            if not due:
                return round_, answers
            if faults:
                self._tell_wait(*(faults[partition] for partition in sorted(faults)), wait_s=wait_s)
                round_ = self._wait_to_repeat(round_, account, wait_s)
                wait_s = min(2 * wait_s, _LONGEST_S)
            elif doubted:
                round_ = self._wait_to_repeat(round_, account, _DOUBT_S * 2 ** (max(doubts.values()) - 1))
            else:
                round_ = self._without_dropped(round_, account)

    def _patiently(self, call: Callable[[], ResultT]) -> ResultT:
        """Return what the call returns.

        A call that raises ``RetryError`` is made again after a pause, so a second call must do no harm.
        """
        while True:
            try:
                return call()
            except RetryError as away:
                self._tell_wait(away, wait_s=_AGAIN_S)
                self._wait(_AGAIN_S)

    def _tell_wait(self, *faults: TidegateError, wait_s: float) -> None:
        """Log why the next try has to wait. Raises the first fault that waiting cannot mend."""
        for fault in faults:
            if not isinstance(fault, RetryError):
                raise fault
        for sentence in dict.fromkeys(map(str, faults)):
            _log.warning("%s The batch waits for that; it is tried again in %g s.", sentence, wait_s)

    def _wait_to_repeat(self, round_: Round, account: Account, wait_s: float) -> Round:
        """Wait before the round runs again; return the round that is to run then.

        If a feed is dropped, the wait ends: the feed may have been the reason for it.
        """
        ends_at = time.monotonic() + wait_s
        while True:
            self._wait(max(0.0, min(_LOOK_S, ends_at - time.monotonic())))
            amended = self._without_dropped(round_, account)
            if amended != round_ or time.monotonic() >= ends_at:
                return amended

    def _wait(self, seconds: float) -> None:
        self._ending.wait(seconds)
        self._require_wanted()

    def _require_wanted(self) -> None:
        if self._ending.is_set():
            raise QueryEnding("the query was asked to end; this batch is the next one's")

    def _new(self, round_id: RoundId, account: Account) -> Round:
        told = self._controls(account)
        if told:
            return self._round(round_id, told)
        if self._paused - self._feeds.paused():  # partitions without records have to ask for scans too
            return self._round(round_id, dict.fromkeys(range(self._query.partitions), Instructions()))
        return replace(self._round(round_id, {}), records=True)

    def _round(self, round_id: RoundId, instructions: Mapping[int, Instructions]) -> Round:
        return Round(round_id, instructions=instructions, paused=self._feeds.paused())

    def _controls(
        self, account: Account, only: type[ControlMessage] | UnionType = ControlMessage
    ) -> dict[int, Instructions]:
        """Return the messages about feeds that are due now, by partition. Their types are among ``only``."""
        told: dict[int, list[Told]] = defaultdict(list)
        offset = account.controls
        for message, partitions in self._feeds.announcements():
            if isinstance(message, only):
                for partition in partitions:
                    told[partition].append(Told(offset, message.to_bytes()))
                offset += 1
        return {partition: Instructions(controls=tuple(each)) for partition, each in told.items()}

    def _after_records(self, round_id: RoundId, account: Account) -> Round | None:
        if self._exchanges:
            return self._round(round_id, self._passed_on(account))
        if self._begins_feeds and (told := self._controls(account)):
            return self._round(round_id, told)
        if self._unheard:
            everything = Instructions(everything=True)
            return self._round(round_id, dict.fromkeys(range(self._query.partitions), everything))
        return None

    def _passed_on(self, account: Account) -> dict[int, Instructions]:
        told: dict[int, list[Told]] = defaultdict(list)
        for message in self._exchanges:
            partition = partition_of(receiver_of(decode_exchange(message)), self._query.partitions)
            offset = account.exchanges.get(partition, 0) + len(told[partition])
            told[partition].append(Told(offset, message))
        return {partition: Instructions(exchanges=tuple(each)) for partition, each in told.items()}

    def _run(
        self, round_: Round, records: DataFrame, account: Account, due: frozenset[int] | None
    ) -> list[Answer]:
        """Run one Spark job: for the partitions ``due``, or for all that have something to do.

        A task has one partition or several, one after the other. A partition is never in two tasks: Spark's
        Kafka source makes one part for each partition, and ``coalesce`` only puts whole parts together,
        without sorting.
        Spark returns the answers of the task attempt that succeeded, and of no other.
        """
        session = records.sparkSession
        session.sparkContext.setJobDescription(
            f"{self._name}: batch {round_.id.batch}, round {round_.id.number}, {_stage(round_)}"
        )
        if round_.records and self._read_ends is None:
            frame = records.selectExpr(*_RECORDS)
            if due is not None:
                frame = frame.where(f"partition IN ({', '.join(map(str, sorted(due)))})")
            frame = frame.coalesce(self._task_count(session))
            try:
                return self._run_job(frame, run_partitions, round_, account)
            except Exception as error:
                if not is_time_overflow(error):
                    raise
            _log.warning(_TIME_OVERFLOW, round_.id.batch)
            self._read_ends = self._patiently(lambda: self._ends(round_.id.batch))
        ends = self._read_ends if round_.records else None
        partitions = sorted(due if due is not None else ends or round_.instructions)
        frame = session.range(0, len(partitions), 1, min(self._task_count(session), len(partitions)))
        return self._run_job(frame, partial(run_told, partitions, ends=ends), round_, account)

    def _run_job(
        self, frame: DataFrame, task: Callable[..., Iterator[Any]], round_: Round, account: Account
    ) -> list[Answer]:
        run = partial(task, self._query, round_, account.heads)
        vars(run)["__name__"] = f"tidegate_{_stage(round_)}"  # what Spark's plan calls it
        with self._limit.explained(frame.sparkSession):
            rows = frame.mapInArrow(run, ANSWER_SCHEMA).collect()
        answers = [Answer(partition, kind, bytes(body)) for partition, kind, body in rows]
        self._limit.look(frame.sparkSession, answers)
        return answers

    def _task_count(self, session: SparkSession) -> int:
        return self._query.tasks or session.sparkContext.defaultParallelism

    def _after(self, round_: Round, answers: Sequence[Answer], account: Account) -> Account:
        # a stored round may not have all that this run of the batch has found out
        passed_on = {told.message for each in round_.instructions.values() for told in each.exchanges}
        self._exchanges = [message for message in self._exchanges if message not in passed_on]
        self._exchanges += [answer.body for answer in answers if answer.kind == "exchange"]
        if any(each.everything for each in round_.instructions.values()):
            self._unheard = False
        self._feeds.note_answers(answers)
        for answer in answers:
            if answer.kind == "aside":
                self._aside.keep(answer.partition, RefusedRecord.from_json(json.loads(answer.body)))
        if round_.records or len(round_.instructions) < self._query.partitions:
            self._paused |= round_.paused | self._feeds.paused()
        else:
            self._paused = round_.paused | self._feeds.paused()
        heads = {answer.partition: answer.body.decode() for answer in answers if answer.kind == "head"}
        controls = [each.offset for told in round_.instructions.values() for each in told.controls]
        exchanges = {
            partition: told.exchanges[-1].offset + 1
            for partition, told in round_.instructions.items()
            if told.exchanges
        }
        return replace(
            account,
            heads=account.heads | heads,
            controls=max(controls, default=account.controls - 1) + 1,
            exchanges=account.exchanges | exchanges,
        )


def _refused_at_last(doubted: Iterable[Answer], doubts: Counter[tuple[int, str]]) -> Iterator[Answer]:
    """Yield a refusal for each feed whose rows ``PRODUCERS`` attempts have doubted by now (step S5a).

    ``doubts`` counts the attempts of this round, by partition and feed.
    """
    for partition, _, body in doubted:
        feed_id, doubt = json.loads(body)
        _log.warning("Rows of feed %s in partition %d are written again: %s.", feed_id, partition, doubt)
        doubts[partition, feed_id] += 1
        if doubts[partition, feed_id] >= PRODUCERS:
            yield Answer(partition, "refused", json.dumps([feed_id, str(refused_at_last(doubt))]).encode())


def _with_refused(round_: Round, answers: Iterable[Answer]) -> Round:
    """Return the round with the refusals of ``answers``, for the next attempt of their partitions."""
    refused = {partition: dict(feeds) for partition, feeds in round_.refused.items()}
    for answer in answers:
        feed_id, reason = json.loads(answer.body)
        refused.setdefault(answer.partition, {})[FeedId(feed_id)] = reason
    return replace(round_, refused=refused)


def _with_cautions(round_: Round, broken: Mapping[int, StepBroke]) -> Round:
    """Return the round with more caution for partitions in which a step broke.

    Raises the ``StepBroke`` when more caution cannot help.
    """
    cautions = {
        partition: round_.cautions.get(partition, Caution()).after(broke)
        for partition, broke in broken.items()
    }
    return replace(round_, cautions={**round_.cautions, **cautions})


def _stage(round_: Round) -> str:
    """Return one word that says what a round is about."""
    if round_.records:
        return "records"
    told = round_.instructions.values()
    if any(each.controls for each in told):
        return "feeds"
    if not any(each.exchanges or each.everything for each in told):
        return "resume"
    return "exchanges" if any(each.exchanges for each in told) else "checkpoints"

"""What the driver does with a micro-batch (docs/spark.md, steps B1 to B7).

    B1  read the account of the batch before
    B2  tell partitions of feeds that begin or end, round by round, until nothing about feeds is to be done
    B3  step the batch's records: one task for each partition that has some
    B4  pass claims and hand-offs on, round by round, until there are none
    B5  write the requests to the source
    B6  persist each feed's high-water, and write its marker
    B7  store the account of the batch

Each round is stored before it runs. A batch that is run again is told the same rounds.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from threading import Lock
from typing import Final, Protocol

from pyspark.sql import DataFrame

from pipeline.ledger import Account, Ledger
from pipeline.partition_round import ANSWER_SCHEMA, Answer, Query, run_partition, run_told
from pipeline.rounds import Instructions, Round, RoundId, Told
from tidegate.changefeed.control import ControlMessage
from tidegate.processor.exchange_codec import decode_exchange
from tidegate.raftlog.encode import partition_of
from tidegate.rangefeed.handoff import receiver_of

_RECORDS: Final = ("partition", "offset", "unix_millis(timestamp) AS timestamp_ms", "key", "value")


class Feeds(Protocol):
    """What a batch needs of the feeds that the query runs."""

    def announcements(self) -> Sequence[tuple[ControlMessage, Sequence[int]]]:
        """What partitions are to be told now; does whatever else is due about feeds that begin or end."""

    def take(self, answers: Iterable[Answer]) -> None:
        """Note acknowledgements and checkpoints of a round that is done."""

    def publish(self) -> None:
        """Persist high-waters, write requests and markers."""


class QueryEnding(Exception):
    """No batch begins any more."""


class BatchDriver:
    """The function of ``foreachBatch``: runs batches one after the other, each maybe more than once."""

    def __init__(self, query: Query, ledger: Ledger, feeds: Feeds) -> None:
        self._query = query
        self._ledger = ledger
        self._feeds = feeds
        self._unheard = True  # no partition has said how all of its ranges are
        self._exchanges: list[bytes] = []
        self._running = Lock()
        self._ending = False

    def __call__(self, records: DataFrame, batch: int) -> None:
        """Run the batch. Raises what a task or the driver has met; the query ends with it."""
        with self._running:
            if self._ending:
                raise QueryEnding("the query was asked to end; this batch is the next one's")
            self._run_batch(records, batch)

    def end(self, patience_s: float) -> None:
        """Let no batch begin, and wait so long for the one that runs: one that is cut off is run again."""
        self._ending = True
        if self._running.acquire(timeout=patience_s):
            self._running.release()

    def _run_batch(self, records: DataFrame, batch: int) -> None:
        account = self._ledger.account(batch - 1)
        self._exchanges = []
        stepped, number = False, 0
        while (round_ := self._next(RoundId(batch, number), account, stepped=stepped)) is not None:
            answers = self._run(round_, records, account)
            account = self._after(round_, answers, account)
            stepped |= round_.records
            number += 1
        self._feeds.publish()
        self._ledger.close_batch(batch, account)

    def _next(self, round_id: RoundId, account: Account, *, stepped: bool) -> Round | None:
        """The next round of the batch, as an earlier run of the batch was told it, or a new one."""
        round_ = self._ledger.told(round_id)
        if round_ is None:
            round_ = self._after_records(round_id, account) if stepped else self._new(round_id, account)
            if round_ is not None:
                self._ledger.tell(round_)
        return round_

    def _new(self, round_id: RoundId, account: Account) -> Round:
        told: dict[int, list[Told]] = defaultdict(list)
        offset = account.controls
        for message, partitions in self._feeds.announcements():
            for partition in partitions:
                told[partition].append(Told(offset, message.to_bytes()))
            offset += 1
        if not told:
            return Round(round_id, records=True)
        return Round(
            round_id,
            instructions={partition: Instructions(controls=tuple(each)) for partition, each in told.items()},
        )

    def _after_records(self, round_id: RoundId, account: Account) -> Round | None:
        if self._exchanges:
            return Round(round_id, instructions=self._passed_on(account))
        if self._unheard:
            everything = Instructions(everything=True)
            return Round(round_id, instructions=dict.fromkeys(range(self._query.partitions), everything))
        return None

    def _passed_on(self, account: Account) -> dict[int, Instructions]:
        told: dict[int, list[Told]] = defaultdict(list)
        for message in self._exchanges:
            partition = partition_of(receiver_of(decode_exchange(message)), self._query.partitions)
            offset = account.exchanges.get(partition, 0) + len(told[partition])
            told[partition].append(Told(offset, message))
        return {partition: Instructions(exchanges=tuple(each)) for partition, each in told.items()}

    def _run(self, round_: Round, records: DataFrame, account: Account) -> list[Answer]:
        """One Spark job. What its tasks say is of the attempt that succeeded, and of that alone."""
        session = records.sparkSession
        session.sparkContext.setJobDescription(f"tidegate round {round_.id.name}")
        task: Callable[..., object]
        if round_.records:
            frame, task = records.selectExpr(*_RECORDS), run_partition
        else:
            partitions = sorted(round_.instructions)
            frame = session.range(0, len(partitions), 1, len(partitions))
            task = partial(run_told, partitions)
        run = partial(task, self._query, round_, account.heads)
        rows = frame.mapInArrow(run, ANSWER_SCHEMA).collect()
        return [Answer(partition, kind, bytes(body)) for partition, kind, body in rows]

    def _after(self, round_: Round, answers: Sequence[Answer], account: Account) -> Account:
        if any(each.exchanges for each in round_.instructions.values()):
            self._exchanges = []  # they are passed on
        self._exchanges += [answer.body for answer in answers if answer.kind == "exchange"]
        if any(each.everything for each in round_.instructions.values()):
            self._unheard = False
        self._feeds.take(answers)
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

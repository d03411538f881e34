"""A query whose tasks run in this process, over a simulated store, with sinks that do not follow.

All of it is tidegate's own but for Spark, the brokers of the sinks, and the reading of the log.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any, Final

import pyarrow as pa
import pytest
from pyarrow import fs

import pipeline.partition_round
import pipeline.row_sinks
from pipeline.answers import Answer
from pipeline.batch_driver import BatchDriver
from pipeline.ledger import Account, Ledger
from pipeline.partition_round import TASK_COLUMNS, LogEntryRecord, Query, run_partition, run_told
from pipeline.rounds import Round, RoundId
from pipeline.row_producer import FeedRefused, SinkStalled
from sim.options import StoreOptions
from sim.workloads.bank import Bank, BankOptions
from tests.driven_sim import DrivenSim
from tests.feeds import WITH_MARKERS, activation
from tests.logs import EVENTFUL_MIX, Record
from tests.simulation.feed_judge import FeedJudge
from tidegate.changefeed.control import Activate, ControlMessage, Failed, read_ack
from tidegate.changefeed.feed import FeedId
from tidegate.changefeed.options import InitialScan
from tidegate.client.connection import KafkaConnection
from tidegate.errors import RowRefused
from tidegate.hlc import ZERO, Timestamp
from tidegate.processor.batch import LogRecord, OutputRecord
from tidegate.processor.checkpoint import decode_checkpoint
from tidegate.processor.config import ProcessorConfig
from tidegate.processor.exchange_codec import decode_exchange
from tidegate.processor.pushes import PushPolicy
from tidegate.raftlog.request import decode_request
from tidegate.rangefeed.handoff import HandOff

_PARTITIONS: Final = 3
_HOME: Final = KafkaConnection("127.0.0.1:9")
_AWAY: Final = "127.0.0.1:8"
_OLD_NAME: Final = "127.0.0.1:7"  # of the query's own cluster, when the feed there was created
_KEY_BYTES: Final = 8  # of a range id, before the request
_DRAIN_BATCHES: Final = 150
_ASKED_AGAIN_MS: Final = 31_000  # what has no answer for so long is asked for again


class DriverDied(Exception):
    """Whatever it had in memory is gone."""


class DrivenQuery:
    """One run: two feeds on the query's own cluster and on one that stands still at times, and a third one
    there that begins with a scan in the midst of it.

    ``stalls`` and ``deaths`` count sinks that were given up, and drivers that died; ``hand_offs`` those that
    told of what a feed lacks.
    """

    def __init__(self, seed: int, root: Path, patch: pytest.MonkeyPatch) -> None:
        self.seed = seed
        self.rng = Random(seed)
        self.sim = DrivenSim(
            Bank(BankOptions(accounts=30, ranges=4, outcomes=EVENTFUL_MIX), seed), _STORE, seed=seed
        )
        self.logs: list[list[Record]] = [[] for _ in range(_PARTITIONS)]
        self.feeds = _Feeds(self)
        self.stalls = self.hand_offs = self.deaths = 0
        self.stands_still = False
        #: The probability that the away cluster refuses a row of those that it is given.
        self.refuses = 0.0
        self.away_is = "away"  # the cluster at that address
        self.troubles = True
        self.round = Round(RoundId(0, 0))
        #: Rows of producers that were abandoned, on their way.
        self.late: list[list[OutputRecord]] = []
        #: What Python workers hold.
        self.workers: list[dict[tuple[str, int], Any]] = [{}, {}]
        self._patch = patch
        self._root = root
        self._batch = -1
        self._ends = [0] * _PARTITIONS
        self._driver = self._start()
        patch.setattr(pipeline.row_sinks, "RowProducer", self._producer)
        patch.setattr(pipeline.row_sinks, "_idle", {})
        patch.setattr(pipeline.row_sinks, "_stalled_at", {})
        patch.setattr(pipeline.partition_round, "_read_again", self._read_again)
        patch.setattr(pipeline.partition_round.PartitionTask, "_log_start", lambda _: 0)

    def run(self, batches: int, *, drain: bool = True) -> None:
        """Let things happen, then everything end. Raises ``BrokenPromise``, or what broke.

        Without ``drain`` the end is not waited for, which feeds that have failed do not come to.
        """
        for number in range(batches):
            if number == batches // 3:
                self.feeds.begin_scan()
            self._happen()
            self._run_batch()
        self.troubles = self.stands_still = False
        self.away_is = "away"
        pipeline.row_sinks._stalled_at.clear()
        self.sim.stop()
        for number in range(_DRAIN_BATCHES if drain else 3):
            self.sim.advance(_ASKED_AGAIN_MS if number % 10 == 9 else 300)
            self._run_batch()
            if self.sim.simulation.drained and self.feeds.are_complete:
                break
        if drain:
            self.feeds.require_complete()

    # ---- what happens

    def _happen(self) -> None:
        rng = self.rng
        for _ in range(rng.randint(1, 5)):
            self.sim.advance(rng.randint(1, 60))
            if rng.random() < 0.5:
                self.sim.split_somewhere(rng)
            if rng.random() < 0.2:
                self.sim.merge_somewhere(rng)
        if rng.random() < 0.3:
            self.stands_still = not self.stands_still
        if rng.random() < 0.2:
            self.away_is = rng.choice(("away", "away", "stranger"))
        if self.late and rng.random() < 0.5:
            rows = self.late.pop(rng.randrange(len(self.late)))
            self.feeds.see(rows[: rng.randint(0, len(rows))])
        if rng.random() < 0.2:
            rng.choice(self.workers).clear()  # it was replaced
        if rng.random() < 0.5:
            pipeline.row_sinks._stalled_at.clear()  # a while is over

    def _run_batch(self) -> None:
        """The next batch, run again until it is done."""
        self._batch += 1
        starts = self._ends
        for log, new in zip(self.logs, self.sim.records(), strict=True):
            log.extend(new)
        self._ends = [len(log) for log in self.logs]
        ranges = [slice(*each) for each in zip(starts, self._ends, strict=True)]
        self.records = [log[part] for log, part in zip(self.logs, ranges, strict=True)]
        while True:
            try:
                self._driver(None, self._batch)  # type: ignore[arg-type]  # its records are ours
            except DriverDied:
                self.deaths += 1
                self._driver = self._start()
            else:
                return

    def run_task(self) -> None:
        """The next task is one of another Python worker."""
        self._patch.setattr(pipeline.partition_round, "_held", self.rng.choice(self.workers))

    def die_at_times(self) -> None:
        """Raises ``DriverDied``."""
        if self.troubles and self.rng.random() < 0.05:
            raise DriverDied

    def _start(self) -> _Driver:
        config = ProcessorConfig(PushPolicy(age_ms=500, repeat_ms=300), detachable=True)
        query = Query(
            f"query {self.rng.getrandbits(32)}",
            _HOME,
            "raftlog",
            _PARTITIONS,
            self._root.as_uri(),
            config,
            sink_stall_s=60.0,
        )
        self.feeds.forget_reports()
        return _Driver(self, query, Ledger(fs.LocalFileSystem(), str(self._root)))

    def _producer(
        self, config: Mapping[str, Any], stall_s: float | None, *, watched: bool = False
    ) -> _Producer:
        assert watched == (config["bootstrap.servers"] == _AWAY)
        away = config["bootstrap.servers"] == _AWAY
        assert (stall_s is not None) == away
        return _Producer(self, away=away)

    def _read_again(self, query: Query, partition: int, offsets: range) -> Iterator[list[LogRecord]]:
        yield [*map(_as_read, self.logs[partition][offsets.start : offsets.stop])]


class _Driver(BatchDriver):
    """Runs tasks one after the other, in any order; some twice, as Spark does with slow ones."""

    def __init__(self, run: DrivenQuery, query: Query, ledger: Ledger) -> None:
        super().__init__(query, ledger, run.feeds)
        self._of = run

    def _run(self, round_: Round, records: Any, account: Account, due: frozenset[int] | None) -> list[Answer]:
        run = self._of
        run.round = round_
        partitions = [*(due or (range(_PARTITIONS) if round_.records else round_.instructions))]
        run.rng.shuffle(partitions)
        answers: list[Answer] = []
        for partition in partitions:
            run.die_at_times()
            answers += self._task(round_, account, partition)
            if run.troubles and run.rng.random() < 0.1:
                again = self._task(round_, account, partition)
                if run.rng.random() < 0.5:
                    answers = [answer for answer in answers if answer.partition != partition] + again
        run.die_at_times()
        assert not [answer for answer in answers if answer.kind == "fault"], answers
        return answers

    def _task(self, round_: Round, account: Account, partition: int) -> list[Answer]:
        self._of.run_task()
        query, heads = self._query, account.heads
        came: Iterable[pa.RecordBatch]
        if round_.records:
            came = run_partition(query, round_, heads, self._of_partition(partition))
        else:
            came = run_told([partition], query, round_, heads, [pa.RecordBatch.from_pydict({"id": [0]})])
        return [Answer(**row) for batch in came for row in batch.to_pylist()]

    def _of_partition(self, partition: int) -> Iterator[pa.RecordBatch]:
        records = self._of.records[partition]
        for first in range(0, len(records), 20):
            rows = [
                {"partition": partition, "offset": each.offset, "timestamp_ms": each.timestamp}
                | {"key": each.key, "value": each.value}
                for each in records[first : first + 20]
            ]
            yield pa.RecordBatch.from_pylist(rows).select(list(TASK_COLUMNS))


class _Producer:
    """A producer for a cluster that takes rows in order, one by one; or stands still."""

    def __init__(self, run: DrivenQuery, *, away: bool) -> None:
        self._run = run
        self._away = away
        self._waiting: list[OutputRecord] = []
        self._abandoned = False
        self._begun_at = ""  # the cluster that was asked
        self._has_changed = False

    def cluster_id(self, topic: str) -> str:
        """See ``RowProducer``."""
        if self._begun_at not in ("", self._run.away_is):
            raise SinkStalled
        self._begun_at = self._run.away_is
        return self._begun_at

    def send(self, feed_id: FeedId, rows: Iterable[OutputRecord]) -> None:
        """See ``RowProducer``. The address may come to mean another cluster meanwhile."""
        assert not self._abandoned
        if self._away and self._run.troubles and self._run.rng.random() < 0.05:
            self._run.away_is = self._run.rng.choice(("away", "stranger"))
        if self._has_changed:
            raise SinkStalled
        self._waiting += rows
        if self._away and self._run.troubles and self._run.rng.random() < self._run.refuses:
            self._take(self._run.rng.randint(0, len(self._waiting) - 1))
            self._run.late.append(self._waiting)
            raise FeedRefused(feed_id, RowRefused("a row is above a limit"))
        self._require_not_paused(rows)
        self._take(self._run.rng.randint(0, len(self._waiting)))
        if self._stands_still and self._run.rng.random() < 0.2:
            raise SinkStalled

    def acknowledge(self) -> None:
        """See ``RowProducer``."""
        assert not self._abandoned
        if self._stands_still and self._waiting:
            self._take(self._run.rng.randint(0, len(self._waiting) - 1))
            raise SinkStalled
        self._take(len(self._waiting))
        if self._has_changed:
            raise SinkStalled

    def abandon(self) -> None:
        """See ``RowProducer``."""
        self._abandoned = True
        self._run.stalls += 1
        if not self._has_changed:  # else they are on their way to nobody, behind rows that are lost
            self._run.late.append(self._waiting)

    @property
    def _stands_still(self) -> bool:
        return self._away and self._run.stands_still

    def _take(self, count: int) -> None:
        rows, self._waiting = self._waiting[:count], self._waiting[count:]
        if self._away and self._begun_at not in ("", self._run.away_is):
            self._has_changed = True  # and no row of this producer comes to any cluster that counts
        if not self._has_changed:
            self._run.feeds.see(rows)

    def _require_not_paused(self, rows: Iterable[OutputRecord]) -> None:
        paused = self._run.round.paused
        fed = {row.topic.partition("-")[0] for row in rows} & paused
        assert not fed, f"{fed} are given rows in a round that they pause in"


class _Feeds:
    """The feeds of the run, their markers and pauses (`pipeline.batch_driver.Feeds`)."""

    def __init__(self, run: DrivenQuery) -> None:
        self._run = run
        self._judges: dict[FeedId, FeedJudge] = {}
        self._activations: list[Activate] = []
        self._told = 0
        self._paused = frozenset[FeedId]()
        #: Why feeds have failed in some partition.
        self.failed: dict[FeedId, str] = {}
        self._checkpoints: list[bytes] = []
        for name, servers in (("home", _OLD_NAME), ("away", _AWAY)):
            self._begin(name, servers, ZERO, InitialScan.NO)

    def begin_scan(self) -> None:
        """A feed that begins at the present with a scan, on the cluster that stands still."""
        self._begin("scan", _AWAY, Timestamp(self._run.sim.now_ns), InitialScan.YES)

    def _begin(self, name: str, servers: str, start: Timestamp, scan: InitialScan) -> None:
        options = replace(WITH_MARKERS, topic_prefix=f"{name}-", initial_scan=scan)
        tables, uri = self._run.sim.tables, f"kafka://{servers}"
        feed = activation(tables, options, start=start, feed_id=name, sink_uri=uri)
        self._activations.append(feed)
        self._judges[feed.feed_id] = FeedJudge(feed, tables)

    # ---- what the driver asks

    def announcements(self) -> Sequence[tuple[ControlMessage, Sequence[int]]]:
        """Each feed once; which ones partitions know is in their state."""
        self._run.die_at_times()
        new = self._activations[self._told :]
        return [(feed, range(_PARTITIONS)) for feed in new]

    def paused(self) -> frozenset[FeedId]:
        """Those that were left behind, for a while."""
        if not self._run.troubles or self._run.rng.random() < 0.1:
            self._paused = frozenset()
        return self._paused

    def clusters(self) -> dict[FeedId, str]:
        """See ``Feeds``: as they are stored."""
        return {judge: "" if judge == "home" else "away" for judge in self._judges}

    def take(self, answers: Iterable[Answer]) -> None:
        """See ``Feeds``."""
        for answer in answers:
            match answer.kind:
                case "checkpoint":
                    self._checkpoints.append(answer.body)
                case "stalled":
                    self._paused |= {FeedId(answer.body.decode())}
                case "ack":
                    self._told = len(self._activations)
                    ack = read_ack(answer.body)
                    if isinstance(ack, Failed):
                        self.failed[ack.feed_id] = ack.reason
                case "request":
                    self._request(answer.body[_KEY_BYTES:])
                case "exchange":
                    message = decode_exchange(answer.body)
                    self._run.hand_offs += isinstance(message, HandOff) and bool(message.lags)

    def publish(self) -> None:
        """What markers may say from now on is judged."""
        self._run.die_at_times()
        told, self._checkpoints = self._checkpoints, []
        for checkpoint in map(decode_checkpoint, told):
            for active in checkpoint.feeds:
                judge = self._judges[active.feed_id]
                for item in checkpoint.ranges:
                    if judge.watches(item.span):
                        judge.check(item, self._run.sim.history)

    # ---- what comes of it

    def see(self, rows: Iterable[OutputRecord]) -> None:
        """A cluster has these rows."""
        for row in rows:
            self._judges[FeedId(row.topic.partition("-")[0])].see(row, self._run.sim.history)

    def forget_reports(self) -> None:
        """The driver has died."""
        self._checkpoints = []

    @property
    def are_complete(self) -> bool:
        """Whether all feeds have come to the end of the history."""
        last = max((version.timestamp.floor() for version in self._run.sim.history), default=ZERO)
        return all(judge.is_complete(last) for judge in self._whole)

    def require_complete(self) -> None:
        """No row is missing, and all are covered by markers."""
        for judge in self._whole:
            judge.require_nothing_missing(self._run.sim.history)
        assert self.are_complete, [judge.frontier.lowest_entry for judge in self._whole]

    @property
    def _whole(self) -> list[FeedJudge]:
        """Of the feeds that have not failed."""
        return [judge for feed_id, judge in self._judges.items() if feed_id not in self.failed]

    def _request(self, body: bytes) -> None:
        request: Any = decode_request(body)
        if not self._run.troubles or self._run.rng.random() < 0.8:
            self._run.sim.request(request)


_STORE: Final = StoreOptions(
    partitions=_PARTITIONS,
    closed_lag_ms=50,
    heartbeat_ms=100,
    write_rate=400.0,
    snapshot_interval_ms=700,
    scan_chunk_rows=3,
    txn_expiry_ms=300,
)


def _as_read(record: Record) -> LogEntryRecord:
    return LogEntryRecord(record.offset, record.key, record.value, record.timestamp)

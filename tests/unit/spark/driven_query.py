"""A query whose tasks run in this process, over a simulated store, with sinks that do not follow.

All of it is tidegate's own but for Spark, the brokers of the sinks, and the reading of the log.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, Final

import pyarrow as pa
import pytest
from pyarrow import fs

import tidegate.spark.changefeed.row_producer
import tidegate.spark.changefeed.row_sinks
import tidegate.spark.changefeed.task.partition_task
import tidegate.spark.changefeed.task.round_state
from sim.log.history import History, Mutated
from sim.options import StoreOptions
from sim.workloads.bank import Bank, BankOptions
from tests.destinations import DESTINATIONS
from tests.driven_sim import DrivenSim
from tests.feeds import WITH_MARKERS, activation
from tests.logs import EVENTFUL_MIX, Record
from tests.simulation.feed_judge import BrokenPromise, FeedJudge
from tests.simulation.odd_logs import is_upkeep
from tests.simulation.record_sizes import BYSTANDER, bystanders
from tests.unit.spark.driven_clients import STORED, STRANGER, DrivenClients
from tests.unit.spark.odd_records import Oddities, OddRecords
from tidegate.changefeed.definition.feed import FIRST_EPOCH, Engine, FeedEpoch, FeedId
from tidegate.changefeed.definition.options import InitialScan
from tidegate.changefeed.encoding.json_decoder import parse_record
from tidegate.changefeed.encoding.record import RowRecord
from tidegate.changefeed.lifecycle.control import Activate, ControlMessage, Failed, Remove, Removed, read_ack
from tidegate.client.kafka.connection import KafkaConnection
from tidegate.delivery.sink_clusters import OWN
from tidegate.hlc import ZERO, Timestamp
from tidegate.processor.batch import LogRecord, OutputRecord, RangeCheckpoint
from tidegate.processor.checkpoint import decode_checkpoint
from tidegate.processor.config import ProcessorConfig
from tidegate.processor.push_policy import PushPolicy
from tidegate.processor.state.exchange_codec import decode_exchange
from tidegate.processor.step_size import RowLimits
from tidegate.raftlog.request import Push, decode_request
from tidegate.ranges.handoff import HandOff
from tidegate.rows import TableDescriptor
from tidegate.spark.changefeed.batch_driver import BatchDriver
from tidegate.spark.changefeed.ledger import Account, Ledger
from tidegate.spark.changefeed.partition_round import run_partitions, run_told
from tidegate.spark.changefeed.query import Query
from tidegate.spark.changefeed.rounds import Round, RoundId
from tidegate.spark.changefeed.task.answers import Answer
from tidegate.spark.changefeed.task.log_records import TASK_COLUMNS, LogEntryRecord
from tidegate.spark.platform.state_files import StateFiles

_PARTITIONS: Final = 3
_HOME: Final = KafkaConnection("127.0.0.1:9", destinations=DESTINATIONS)
_AWAY: Final = "127.0.0.1:8"
_OLD_NAME: Final = "127.0.0.1:7"  # of the query's own cluster, when the feed there was created
_KEY_BYTES: Final = 8  # of a range id, before the request
_DRAIN_BATCHES: Final = 150
_WANDERS: Final = 0.01  # whenever a producer does something: its address comes to mean another cluster
_FEW_CHANGES: Final = 100  # after which the rows of a state are written anew
_MOST_DELTAS: Final = 4  # the same
_REFUSALS: Final = ("max.message.bytes", "has had no partition")
_NOTHING_ODD: Final = Oddities()
_ASKED_AGAIN_MS: Final = 31_000  # what has no answer for so long is asked for again
_PAUSE_MS: Final = 1_000_000
_LAST_MS: Final = 5_000  # what had begun before a pause ends
_SILENT: Final = 0.5


class DriverDied(Exception):
    """Whatever it had in memory is gone."""


class DrivenQuery:
    """One run: two feeds on the query's own cluster and on one that stands still at times, and a third one
    there that begins with a scan in the midst of it.

    ``stalls`` and ``deaths`` count sinks that were given up, and drivers that died; ``hand_offs`` those that
    told of what a feed misses.
    """

    def __init__(
        self, seed: int, root: Path, patch: pytest.MonkeyPatch, oddities: Oddities = _NOTHING_ODD
    ) -> None:
        self.seed = seed
        self.odd = oddities
        self.rng = Random(seed)
        #: Of half of the seeds most steps end amid what they are given.
        self._step_bytes = Random(f"{seed}:steps").choice((300, 1_500, 64 << 20, 64 << 20))
        store = replace(_STORE, heartbeat_ms=5_000, snapshot_interval_ms=10_000) if oddities.pause else _STORE
        self.sim = DrivenSim(
            Bank(BankOptions(accounts=30, ranges=4, outcomes=EVENTFUL_MIX), seed), store, seed=seed
        )
        self._silent_since_ms: int | None = None
        self.logs: list[list[Record]] = [[] for _ in range(_PARTITIONS)]
        self.feeds = _Feeds(self)
        self.clients = DrivenClients(self.rng, _AWAY, self.feeds.see, self._require_not_paused)
        self.clients.wanders = _WANDERS
        self.clients.grows = dict.fromkeys(("home", "away", "scan"), oddities.grow)
        self._arriving = OddRecords(oddities, _PARTITIONS, Random(f"{seed}:records"))
        self._oddness = Random(f"{seed}:oddness")
        self.grouping = Random(f"{seed}:grouping")
        self.stalls = self.hand_offs = self.deaths = 0
        self.records_at_once = 20  # of a task's records, in one of its steps
        self.troubles = True
        self.round = Round(RoundId(0, 0))
        #: What Python workers hold.
        self.workers: list[dict[tuple[str, int], Any]] = [{}, {}]
        self._patch = patch
        self._root = root
        self._batch = -1
        self._ends = [0] * _PARTITIONS
        self._driver = self._start()
        patch.setattr(tidegate.spark.changefeed.row_producer, "Producer", self.clients)
        patch.setattr(
            tidegate.spark.changefeed.row_producer,
            "time",
            SimpleNamespace(monotonic=lambda: self.clients.now),
        )
        patch.setattr(tidegate.spark.changefeed.row_sinks, "_idle", {})
        patch.setattr(tidegate.spark.changefeed.row_sinks, "_stalled_at", {})
        patch.setattr(tidegate.spark.changefeed.task.partition_task, "_read_again", self._read_again)
        patch.setattr(tidegate.spark.changefeed.task.round_state, "_FEW_CHANGES", _FEW_CHANGES)
        patch.setattr(tidegate.spark.changefeed.task.round_state, "_MOST_DELTAS", _MOST_DELTAS)
        patch.setattr(tidegate.spark.changefeed.task.partition_task.PartitionTask, "_log_start", lambda _: 0)

    def run(self, batches: int, *, drain: bool = True) -> None:
        """Let things happen, then everything end. Raises ``BrokenPromise``, or what broke.

        Without ``drain`` the end is not waited for, which feeds that have failed do not come to.
        """
        for number in range(batches):
            if number == batches // 3:
                self.feeds.begin_scan()
            if self.odd.takes_over and number == batches // 4:
                self.feeds.leave_off()
            if self.odd.takes_over and number == batches // 2:
                self.feeds.take_over()
            self._happen()
            self._run_batch()
        self.troubles = False
        self.clients.end()
        self._arriving = OddRecords(_NOTHING_ODD, _PARTITIONS, self._oddness)
        tidegate.spark.changefeed.row_sinks._stalled_at.clear()
        self.sim.stop()
        for number in range(_DRAIN_BATCHES if drain else 3):
            tidegate.spark.changefeed.row_sinks._stalled_at.clear()  # which goes by the true time
            self.sim.advance(_ASKED_AGAIN_MS if number % 5 == 4 else 300)
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
            self.clients.room = rng.randint(0, 20) if self.clients.room is None else None
        if rng.random() < 0.2:
            self.clients.is_there = rng.choice((STORED, STORED, STRANGER))
        self.clients.silent = rng.random() < 0.05
        if rng.random() < 0.5:
            self.clients.arrive_late()
        if rng.random() < 0.2:
            rng.choice(self.workers).clear()  # it was replaced
        if rng.random() < 0.5:
            tidegate.spark.changefeed.row_sinks._stalled_at.clear()  # a while is over
        self._be_odd()

    def _be_odd(self) -> None:
        rng, odd = self._oddness, self.odd
        while rng.random() < odd.mutate:
            self.sim.mutate_somewhere(rng)
        if rng.random() < odd.delete:
            self.clients.gone.add(rng.choice(self.feeds.topics))
        if rng.random() < odd.end:
            self.feeds.end(rng)
        if odd.build_index and rng.random() < odd.build_index:
            self.sim.build_index_somewhere(rng)
        if odd.pause and rng.random() < odd.pause:
            self._pause(rng)

    def _pause(self, rng: Random) -> None:
        """A long time in which no transaction starts; of half of them nothing arrives."""
        if rng.random() < _SILENT:
            self._silent_since_ms = self.sim.now_ns // 10**6 + _LAST_MS
        self.sim.simulation.postpone(self.sim.now_ns + _PAUSE_MS * 10**6)
        self.sim.advance(_PAUSE_MS)

    def _run_batch(self) -> None:
        """The next batch, run again until it is done."""
        self._batch += 1
        starts = self._ends
        for number, new in enumerate(self.sim.records()):
            self.logs[number].extend(self._arriving.arriving(number, self._sent(number, new)))
        self._silent_since_ms = None
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
                self._require_kept_states()
                return

    def _sent(self, partition: int, records: Sequence[Record]) -> Sequence[Record]:
        """Return the records without those that a source in a silent pause does not send."""
        since_ms, first = self._silent_since_ms, len(self.logs[partition])
        if since_ms is not None:
            records = [each for each in records if each.timestamp < since_ms or not is_upkeep(each)]
        return [each._replace(offset=first + number) for number, each in enumerate(records)]

    def _require_kept_states(self) -> None:
        """Spark may begin from either of the accounts that the ledger keeps."""
        ledger = Ledger(fs.LocalFileSystem(), str(self._root))
        for batch in (self._batch - 1, self._batch):
            for partition, head in ledger.account(batch).heads.items():
                StateFiles(fs.LocalFileSystem(), str(self._root), partition).load(head)

    def run_task(self) -> None:
        """The next task is one of another Python worker."""
        self._patch.setattr(
            tidegate.spark.changefeed.task.round_state, "_held", self.rng.choice(self.workers)
        )

    def die_at_times(self) -> None:
        """Raises ``DriverDied``."""
        if self.troubles and self.rng.random() < 0.05:
            raise DriverDied

    def _start(self) -> _Driver:
        config = ProcessorConfig(
            PushPolicy(age_ms=500, repeat_ms=300), detachable=True, rows=RowLimits(self._step_bytes)
        )
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

    def _require_not_paused(self, row: OutputRecord) -> None:
        if _feed_of(row) in self.round.paused:
            raise BrokenPromise(f"{row.topic} is given a row in a round that it pauses in")

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
        for group in self._groups(partitions):
            run.die_at_times()
            if run.troubles and run.grouping.random() < 0.1:
                self._task(round_, account, group, run.grouping.randrange(len(group)))  # it dies amid them
            answers += self._task(round_, account, group)
            if run.troubles and run.rng.random() < 0.1:
                again = self._task(round_, account, group)
                if run.rng.random() < 0.5:
                    answers = [answer for answer in answers if answer.partition not in group] + again
        run.die_at_times()
        assert not [answer for answer in answers if answer.kind == "fault"], answers
        return answers

    def _groups(self, partitions: Sequence[int]) -> Iterator[Sequence[int]]:
        """Yield the partitions of each task: one or several."""
        left = [*partitions]
        while left:
            count = self._of.grouping.randint(1, len(left))
            yield left[:count]
            del left[:count]

    def _task(
        self, round_: Round, account: Account, group: Sequence[int], most: int = _PARTITIONS
    ) -> list[Answer]:
        """Run a task of these partitions, the first ``most`` of them."""
        self._of.run_task()
        query, heads = self._query, account.heads
        came: Iterable[pa.RecordBatch]
        if round_.records:
            came = run_partitions(query, round_, heads, chain.from_iterable(map(self._of_partition, group)))
        else:
            indexes = pa.RecordBatch.from_pydict({"id": [*range(len(group))]})
            came = run_told(group, query, round_, heads, [indexes])
        return [Answer(**row) for batch in islice(came, most) for row in batch.to_pylist()]

    def _of_partition(self, partition: int) -> Iterator[pa.RecordBatch]:
        records, at_once = self._of.records[partition], self._of.records_at_once
        for first in range(0, len(records), at_once):
            rows = [
                {"partition": partition, "offset": each.offset, "timestamp_ms": each.timestamp}
                | {"key": each.key, "value": each.value}
                for each in records[first : first + at_once]
            ]
            yield pa.RecordBatch.from_pylist(rows).select(list(TASK_COLUMNS))


class _Feeds:
    """The feeds of the run, their markers and pauses (`tidegate.spark.changefeed.batch_driver.Feeds`)."""

    def __init__(self, run: DrivenQuery) -> None:
        self._run = run
        self._judges: dict[FeedId, FeedJudge] = {}
        self._activations: list[Activate] = []
        self._told = 0
        self._paused = frozenset[FeedId]()
        #: Feeds that were dropped, and by whom they are forgotten. Their frontiers are fenced from then on.
        self.ended = frozenset[FeedId]()
        self._removed: set[tuple[FeedId, int]] = set()
        #: Why feeds have failed in some partition.
        self.failed: dict[FeedId, str] = {}
        self._checkpoints: list[bytes] = []
        #: Of the feed that comes from another engine: its high-water, and how many changes that had seen.
        self._left_off: tuple[Timestamp, int] = ZERO, 0
        for name, servers in (("home", _OLD_NAME), ("away", _AWAY)):
            self._begin(name, servers, ZERO, InitialScan.NO)
        self._bystanders = [*bystanders(run.odd.bystanders)]
        self._activations += self._bystanders

    def begin_scan(self) -> None:
        """A feed that begins at the present with a scan, on the cluster that stands still."""
        self._begin("scan", _AWAY, Timestamp(self._run.sim.now_ns), InitialScan.YES)

    def leave_off(self) -> None:
        """Another engine persists the high-water of a feed here, and does nothing for it any more."""
        sim = self._run.sim
        self._left_off = min(range_.closed for range_ in sim.ranges), len(sim.mutations)

    def take_over(self) -> None:
        """The query takes that feed over."""
        high, mutations = self._left_off
        options = replace(WITH_MARKERS, topic_prefix="taken-", cursor=high)
        tables = self._run.sim.tables
        feed = activation(tables, options, start=high, feed_id="taken", sink_uri=f"kafka://{_OLD_NAME}")
        defined = replace(feed.definition, epoch=FeedEpoch(2), engine=Engine.SPARK, goes_on=True)
        feed = replace(feed, definition=defined)
        self._activations.append(feed)
        self._judges[feed.feed_id] = _JudgeOfTaken(feed, tables, self._run.sim.mutations, mutations)

    def _begin(self, name: str, servers: str, start: Timestamp, scan: InitialScan) -> None:
        options = replace(WITH_MARKERS, topic_prefix=f"{name}-", initial_scan=scan)
        tables, uri = self._run.sim.tables, f"kafka://{servers}"
        feed = activation(tables, options, start=start, feed_id=name, sink_uri=uri)
        self._activations.append(feed)
        self._judges[feed.feed_id] = _Judge(feed, tables, self._run.sim.mutations)

    @property
    def topics(self) -> list[str]:
        """All topics of rows."""
        return [target.topic for feed in self._activations for target in feed.targets]

    def end(self, rng: Random) -> None:
        """One of the feeds on the other cluster is dropped, whatever is under way."""
        self.ended |= {rng.choice([feed_id for feed_id in self._judges if feed_id != "home"])}

    # ---- what the driver asks

    def announcements(self) -> Sequence[tuple[ControlMessage, Sequence[int]]]:
        """Each feed once; which ones partitions know is in their state. Those that were dropped until all
        partitions have forgotten them.
        """
        self._run.die_at_times()
        messages: list[tuple[ControlMessage, Sequence[int]]] = [
            (feed, range(_PARTITIONS)) for feed in self._activations[self._told :]
        ]
        known = {feed.feed_id for feed in self._activations[: self._told]}
        for feed_id in sorted(self.ended & known):
            holding = [number for number in range(_PARTITIONS) if (feed_id, number) not in self._removed]
            if holding:
                messages.append((Remove(feed_id, FIRST_EPOCH), holding))
        return messages

    def reached(self, ends: Callable[[], Mapping[int, int]]) -> bool:
        return False

    def paused(self) -> frozenset[FeedId]:
        """Return the feeds that were left behind, for a while."""
        if not self._run.troubles or self._run.rng.random() < 0.1:
            self._paused = frozenset()
        return self._paused

    def clusters(self) -> dict[str, str]:
        """See ``Feeds``: as they are stored."""
        others: dict[str, str] = {feed.feed_id: OWN for feed in self._bystanders}
        return others | {judge: OWN if judge in ("home", "taken") else STORED for judge in self._judges}

    def note_answers(self, answers: Iterable[Answer]) -> None:
        """See ``Feeds``."""
        for answer in answers:
            match answer.kind:
                case "checkpoint":
                    self._checkpoints.append(answer.body)
                case "left_behind":
                    self._paused |= {FeedId(answer.body.decode())}
                    self._run.stalls += 1
                case "ack":
                    self._told = len(self._activations)
                    ack = read_ack(answer.body)
                    if isinstance(ack, Failed):
                        self._fail(ack)
                    if isinstance(ack, Removed):
                        self._removed.add((ack.feed_id, ack.partition))
                case "request":
                    self._request(answer.body[_KEY_BYTES:])
                case "exchange":
                    self._pass_on(answer.body)
                case "incident":
                    self._require_kept(json.loads(answer.body))

    def _pass_on(self, exchange: bytes) -> None:
        """Count the hand-offs that tell of gaps. None names feeds that watch none of its keys."""
        if BYSTANDER.encode() in exchange:
            raise BrokenPromise(f"it names feeds that watch none of its keys: {exchange.hex()}")
        message = decode_exchange(exchange)
        self._run.hand_offs += isinstance(message, HandOff) and bool(message.told_gaps)

    def _require_kept(self, incident: Mapping[str, Any]) -> None:
        """Require that no range that waits is thrown away while its source writes it."""
        alive = {range_.id for range_ in self._run.sim.ranges}
        if "silent" in incident["cause"] and incident["range_id"] in alive:
            raise BrokenPromise(f"a range was left while it waited, and is alive: {incident}")

    def publish(self) -> None:
        """Judge what markers may say from now on."""
        self._run.die_at_times()
        told, self._checkpoints = self._checkpoints, []
        for checkpoint in map(decode_checkpoint, told):
            for active in checkpoint.feeds:
                if active.feed_id not in self._judges:
                    continue  # a bystander
                judge = self._judges[active.feed_id]
                if active.feed_id in self.ended or (
                    active.feed_id == "taken" and active.feed_id in self.failed
                ):
                    continue  # it is fenced: what other partitions say of it comes to nothing
                for item in checkpoint.ranges:
                    if judge.watches(item.span):
                        judge.check(item, self._run.sim.history)

    # ---- what comes of it

    def see(self, row: OutputRecord) -> None:
        """The stored cluster has this row."""
        self._judges[_feed_of(row)].see(row, self._run.sim.history)

    def forget_reports(self) -> None:
        """The driver has died."""
        self._checkpoints = []

    @property
    def are_complete(self) -> bool:
        """Whether all feeds have come to the end of the history."""
        last = max((version.timestamp.floor() for version in self._run.sim.history), default=ZERO)
        return all(judge.is_complete(last) for judge in self._whole)

    def require_complete(self) -> None:
        """Require that no row is missing, and that all are covered by markers."""
        for judge in self._whole:
            judge.require_nothing_missing(self._run.sim.history)
        assert self.are_complete, [judge.frontier.lowest_entry for judge in self._whole]

    @property
    def _whole(self) -> list[FeedJudge]:
        """The judges of the feeds that have neither failed nor ended."""
        over = self.ended | self.failed.keys()
        return [judge for feed_id, judge in self._judges.items() if feed_id not in over]

    def _fail(self, ack: Failed) -> None:
        """Nobody but the cluster that is stored with a feed refuses a row of it. What else fails one is that
        data which it reads was changed.
        """
        if "outside its op log" in ack.reason:
            judge = self._judges[ack.feed_id]
            if not any(judge.watches(each.span) for each in self._run.sim.mutations):
                raise BrokenPromise(f"{ack.feed_id} failed, and nothing was changed: {ack.reason}")
            self.failed[ack.feed_id] = ack.reason
            return
        (feed,) = [each for each in self._activations if each.feed_id == ack.feed_id]
        topics = {target.topic for target in feed.targets}
        refused = any(sentence in ack.reason for sentence in _REFUSALS)
        if refused and not topics & self._run.clients.refused:
            raise BrokenPromise(f"{ack.feed_id} failed, and its cluster has refused nothing: {ack.reason}")
        self.failed[ack.feed_id] = ack.reason

    def _request(self, body: bytes) -> None:
        request: Any = decode_request(body)
        now_ms = self._run.sim.now_ns // 10**6
        if isinstance(request, Push) and request.push_to.wall_ms > now_ms:
            raise BrokenPromise(f"a push to {request.push_to}, and it is {self._run.sim.now_ns} now")
        if not self._run.troubles or self._run.rng.random() >= self._run.odd.lose_answer:
            self._run.sim.request(request)


class _Judge(FeedJudge):
    """A judge that lets versions come late that came to their keys outside the op log.

    Where no command can be read that says so, a scan that was asked for before shows them before a Snapshot
    tells: that may be behind newer versions of the key. The feed fails when a Snapshot does.
    """

    def see(self, record: OutputRecord, history: History) -> None:
        """See ``FeedJudge``."""
        try:
            super().see(record, history)
        except BrokenPromise:
            row = parse_record(record.key, record.value)
            key = self._store_keys.get((record.topic, record.key), b"")
            at = row.updated if isinstance(row, RowRecord) else None
            if at is None or (key, at) not in self._owed_by or at not in self._pending[key]:
                raise
            self._seen[key][at] = record.value
            del self._pending[key][at]


class _JudgeOfTaken(_Judge):
    """The judge of a feed that another engine had, which had seen so many of the mutations.

    Of the others no scan above the high-water shows anything; so no checkpoint may name the feed above one.
    """

    def __init__(
        self, feed: Activate, tables: Sequence[TableDescriptor], mutations: Sequence[Mutated], seen: int
    ) -> None:
        super().__init__(feed, tables, mutations)
        self._seen_before = seen

    def check(self, item: RangeCheckpoint, history: History) -> None:
        """See ``FeedJudge``."""
        for each in islice(self.mutations, self._seen_before, None):
            if each.time <= item.resolved and item.span.contains(each.version.key):
                raise BrokenPromise(f"{self.feed_id}: {item} covers {each}, which the feed does not show")
        super().check(item, history)


def _feed_of(row: OutputRecord) -> FeedId:
    return FeedId(row.topic.partition("-")[0])


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

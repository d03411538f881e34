"""Measures the Spark engine: over a finished log, beside Spark's own copy; for a micro-batch; for ranges.

Everything runs in one session on two threads, with the broker on the same machine. Contenders alternate, and
medians of the passes count. A ratio is the median of the passes' own ratios, so that other work on the
machine disturbs both sides alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

from pyspark.sql import SparkSession

from bench.backfill import SparkBackfill, backfills
from bench.live_tail import LiveTail, live_tail
from bench.spark_query import BatchTimes, Run, SparkFeed, bench_session, copy_topic
from bench.store import BenchStore
from bench.topics import BenchTopics
from bench.workload import BASE_NS, BenchLog, MakeLog, orders_log, single_rows_log
from sim.log.sink import WrittenRecord
from tidegate.errors import RetryError
from tidegate.hlc import NANOS_PER_SECOND
from tidegate.spark.platform.task_clock import STAGES

_PARTITIONS: Final = 4
_BEAT_NS: Final = 3 * NANOS_PER_SECOND
_WARM_BATCHES: Final = 2  # of a query: their times are not the usual ones
_LOGS: Final[dict[str, MakeLog]] = {"a row a record": single_rows_log, "1 to 8 ops a record": orders_log}


@dataclass(frozen=True, slots=True)
class SparkSizes:
    """The sizes of the measurements.

    A log is taken ``passes`` times in every number of micro-batches of ``cuts``; all logs but the first are
    taken in the first number alone. A live log is followed for ``tail_s`` seconds with each of the numbers of
    log partitions in ``tails``.
    """

    rows: int
    passes: int
    cuts: tuple[int, ...]
    tiny_batches: int
    ranges: tuple[int, ...]
    tails: tuple[int, ...]
    tail_s: float


class SparkRatio(NamedTuple):
    """The changefeed over one log in ``batches`` micro-batches, compared with one of Spark's own copies: its
    rate over that of the copy, and its processor time for each row over the copy's.
    """

    log: str
    batches: int
    copy: str
    rate: float
    processor_time: float


class SparkRate(NamedTuple):
    """One contender: rows of the log in each second, and microseconds of processor time for each row, by the
    process that spends it: Spark's Java process, its Python workers, the broker, the driver in Python."""

    log: str
    batches: int
    contender: str
    rows: int
    rows_per_s: float
    spark_us: float
    python_us: float
    broker_us: float
    driver_us: float


class SparkStage(NamedTuple):
    """The time that all tasks together spend on a stage. Two tasks run at a time.

    ``cpu_us`` is processor time for a row, the producers' own threads included.
    """

    log: str
    batches: int
    stage: str
    us_per_row: float
    percent: float
    cpu_us: float


class SparkOverhead(NamedTuple):
    """A part of a micro-batch with a handful of records: in medians. ``of`` names the process that spends
    it."""

    part: str
    of: str
    ms: float


class SparkRanges(NamedTuple):
    """Micro-batches with one heartbeat of every range, medians: ``batch_s`` from trigger to trigger,
    ``feeds_s`` is the driver's time for their checkpoints, ``read_cpu_s``, ``step_cpu_s`` and ``store_cpu_s``
    processor time of all tasks together. ``load_cpu_s`` is that of a query which begins with the state in
    files. ``state_mib`` is what a batch writes, ``checkpoint_mib`` what its tasks tell the driver."""

    ranges: int
    batch_s: float
    feeds_s: float
    read_cpu_s: float
    step_cpu_s: float
    store_cpu_s: float
    load_cpu_s: float
    state_mib: float
    checkpoint_mib: float


@dataclass(slots=True)
class SparkCosts:
    """The results of all measurements of the Spark engine."""

    ratios: list[SparkRatio] = field(default_factory=list)
    rates: list[SparkRate] = field(default_factory=list)
    stages: list[SparkStage] = field(default_factory=list)
    overhead: list[SparkOverhead] = field(default_factory=list)
    ranges: list[SparkRanges] = field(default_factory=list)
    backfills: list[SparkBackfill] = field(default_factory=list)
    tails: list[LiveTail] = field(default_factory=list)


class Pass(NamedTuple):
    """The contenders, one after the other."""

    changefeed: Run
    copy_of_log: Run
    copy_of_rows: Run


@dataclass(frozen=True, slots=True)
class Passes:
    """The passes over a log of ``rows`` rows in ``cut`` micro-batches."""

    log: str
    cut: int
    rows: int
    runs: list[Pass] = field(default_factory=list)


class _Bench:
    """One session and one broker. Every log has topics of its own."""

    def __init__(self, session: SparkSession, topics: BenchTopics, directory: Path, seed: int) -> None:
        self._session = session
        self._topics = topics
        self._directory = directory
        self._seed = seed
        self._numbers = count()

    # ---- speed ----

    def speeds(self, sizes: SparkSizes) -> Iterator[Passes]:
        """Measure the first log in every cut, the others in the first cut."""
        for number, (name, make) in enumerate(_LOGS.items()):
            log = make(sizes.rows, _PARTITIONS, self._seed)
            prefix = self._prefix()
            self._fill(prefix, log.records)
            feed = self._feed(prefix, log)
            feed.run(self._session)  # this run warms everything up, and writes the rows that are copied
            sources = (f"{prefix}raftlog", *feed.outputs)
            cuts = [Passes(name, cut, log.rows) for cut in sizes.cuts[: 1 if number else None]]
            for _ in range(sizes.passes):
                for passes in cuts:
                    passes.runs.append(self._pass(prefix, log, sources, passes.cut))
            yield from cuts

    def _pass(self, prefix: str, log: BenchLog, sources: Sequence[str], cut: int) -> Pass:
        run = self._feed(prefix, log).run(self._session, -(-len(log.records) // cut))
        if run.rows != log.rows:
            raise RetryError(f"Spark wrote {run.rows} rows of {log.rows}")
        return Pass(run, *(self._copy(source, cut) for source in sources))

    def _copy(self, source: str, cut: int) -> Run:
        target = f"{source}-copy-{next(self._numbers)}"
        self._topics.create(target, _PARTITIONS)
        batch = -(-self._topics.size([source]) // cut)
        return copy_topic(self._session, self._topics.bootstrap, source, target, self._directory, batch)

    def backfills(self, rows: int) -> list[SparkBackfill]:
        """Measure backfills of a log whose rows have a record each."""
        log, prefix = single_rows_log(rows, _PARTITIONS, self._seed), self._prefix()
        self._fill(prefix, log.records)
        return backfills(self._session, self._topics, prefix, log, self._directory)

    # ---- micro-batches ----

    def overhead(self, batches: int) -> list[SparkOverhead]:
        """Measure batches of one heartbeat for each log partition."""
        store = BenchStore(partitions=_PARTITIONS, ranges=_PARTITIONS, seed=self._seed)
        records = [*store.head(BASE_NS), *_beats(store, BASE_NS, batches + _WARM_BATCHES)]
        prefix = self._prefix()
        self._fill(prefix, records)
        run = self._feed_of(prefix, store).run(self._session, _PARTITIONS)
        return overhead(run.batches[-batches:])

    def ranges(self, ranges: int, batches: int) -> SparkRanges:
        """Measure batches of a heartbeat for each range, and a second query that begins with their state."""
        store = BenchStore(partitions=_PARTITIONS, ranges=ranges, seed=self._seed)
        prefix = self._prefix()
        self._fill(prefix, [*store.head(BASE_NS), *_beats(store, BASE_NS, batches + _WARM_BATCHES)])
        feed = self._feed_of(prefix, store)
        first = feed.run(self._session, ranges)
        self._topics.fill(f"{prefix}raftlog", _beats(store, BASE_NS + _BEAT_NS * 1_000, 1))
        again = feed.run(self._session, ranges)
        return range_costs(ranges, first.batches[-batches:], again.batches)

    def tail(self, partitions: int, seconds: float) -> LiveTail:
        """Measure a live log with heartbeats alone."""
        return live_tail(self._session, self._topics, self._directory, partitions, seconds, self._seed)

    # ---- logs and feeds ----

    def _prefix(self) -> str:
        return f"bench-spark-{self._directory.name}-{next(self._numbers)}-"

    def _fill(self, prefix: str, records: Iterable[WrittenRecord]) -> None:
        self._topics.create(f"{prefix}raftlog", _PARTITIONS)
        self._topics.fill(f"{prefix}raftlog", records)

    def _feed(self, prefix: str, log: BenchLog) -> SparkFeed:
        return SparkFeed(self._topics, prefix, log.tables, self._directory)

    def _feed_of(self, prefix: str, store: BenchStore) -> SparkFeed:
        return SparkFeed(self._topics, prefix, [store.table], self._directory)


def spark_costs(topics: BenchTopics, directory: Path, sizes: SparkSizes, seed: int) -> SparkCosts:
    """Measure everything. Raises ``RetryError`` when Spark does not write exactly the rows.

    Live logs have a session of their own: in one that has run other queries their batches take twice as long.
    """
    costs = SparkCosts()
    with bench_session() as session:
        live = _Bench(session, topics, directory, seed)
        costs.tails = [live.tail(number, sizes.tail_s) for number in sizes.tails]
    with ExitStack() as stack:
        bench = _Bench(stack.enter_context(bench_session()), topics, directory, seed)
        for passes in bench.speeds(sizes):
            costs.ratios += ratios(passes)
            costs.rates += rates(passes)
            costs.stages += stages(passes)
        costs.backfills = bench.backfills(sizes.rows)
        costs.overhead = bench.overhead(sizes.tiny_batches)
        costs.ranges = [bench.ranges(number, sizes.tiny_batches // 2) for number in sizes.ranges]
    return costs


def _beats(store: BenchStore, base_ns: int, rounds: int) -> Iterator[WrittenRecord]:
    """Yield heartbeats of all ranges, ``rounds`` times."""
    for number in range(1, rounds + 1):
        yield from store.heartbeats(base_ns + number * _BEAT_NS)


# ---- what the runs say ----


def ratios(passes: Passes) -> list[SparkRatio]:
    """Return the rate of the changefeed over that of each copy: medians of the passes' own ratios."""
    found = []
    for name in Pass._fields[1:]:
        pairs = [(run.changefeed, getattr(run, name)) for run in passes.runs]
        rate = median(copy.seconds / ours.seconds for ours, copy in pairs)
        cpu = median(sum(ours.cpu) / sum(copy.cpu) for ours, copy in pairs)
        found.append(SparkRatio(passes.log, passes.cut, _named(name), rate, cpu))
    return found


def rates(passes: Passes) -> list[SparkRate]:
    """Return the rate of every contender by itself: medians."""
    found = []
    for name in Pass._fields:
        runs: list[Run] = [getattr(run, name) for run in passes.runs]
        rate = median(passes.rows / run.seconds for run in runs)
        cpu = [median(part) / passes.rows * 1e6 for part in zip(*(run.cpu for run in runs), strict=True)]
        found.append(SparkRate(passes.log, passes.cut, _named(name), passes.rows, rate, *cpu))
    return found


def stages(passes: Passes) -> list[SparkStage]:
    """Return how long the changefeed's tasks spent on each stage: medians over the passes."""
    runs = [run.changefeed for run in passes.runs]
    seconds = {stage: median(sum(b.tasks[stage] for b in run.batches) for run in runs) for stage in STAGES}
    whole = sum(seconds.values())
    cpu = {stage: median(sum(b.cpu[stage] for b in run.batches) for run in runs) for stage in STAGES}
    us = 1e6 / passes.rows
    return [
        SparkStage(passes.log, passes.cut, stage, spent * us, 100 * spent / whole, cpu[stage] * us)
        for stage, spent in seconds.items()
    ]


def _named(field_name: str) -> str:
    return field_name.replace("_", " ")


def overhead(batches: Sequence[BatchTimes]) -> list[SparkOverhead]:
    """Divide the time of these batches into its parts."""
    parts: list[tuple[str, str, Callable[[BatchTimes], float]]] = [
        ("whole batch", "", lambda batch: batch.whole),
        ("round: the longest task", "tidegate", lambda batch: batch.slowest),
        ("round: the Spark job around it", "Spark", lambda batch: batch.rounds_s - batch.slowest),
        ("rounds and account, as files", "tidegate", lambda batch: batch.driver["ledger"]),
        ("feeds: jobs topic, frontier", "tidegate", lambda batch: batch.driver["feeds"]),
        ("high-water, marker", "tidegate", lambda batch: batch.driver["markers"]),
        ("offsets, planning, commit", "Spark", lambda batch: batch.whole - batch.spark["addBatch"]),
    ]
    found = [SparkOverhead(part, of, 1e3 * median(map(value, batches))) for part, of, value in parts]
    by_stage = [
        SparkOverhead(f"in all tasks: {stage}", "tidegate", 1e3 * median(b.tasks[stage] for b in batches))
        for stage in STAGES
    ]
    return found + by_stage


def range_costs(ranges: int, batches: Sequence[BatchTimes], again: Sequence[BatchTimes]) -> SparkRanges:
    """Return the table's row for batches of heartbeats. ``again`` are batches of a query that began with the
    state of these."""

    def stage(name: str) -> float:
        return median(batch.cpu[name] for batch in batches)

    return SparkRanges(
        ranges,
        median(batch.whole for batch in batches),
        median(batch.driver["feeds"] for batch in batches),
        stage("read"),
        stage("step"),
        stage("store"),
        again[0].cpu["load"],
        median(batch.state_bytes for batch in batches) / (1 << 20),
        median(batch.checkpoint_bytes for batch in batches) / (1 << 20),
    )

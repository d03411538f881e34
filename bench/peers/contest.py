"""tidegate and its peers on one job, in rounds that take turns, each contender a process of its own.

The peers read rows as a feed writes them, and give each the row that it replaces (``row_before.py``).
tidegate reads the log that these rows come from, by a feed with ``diff``. So all write the same keys and
values, which are compared byte for byte with those of the reference before a figure counts. Raw copies copy
these rows.

The first quarter of the rows of a round is warm-up. Its rate is that of the others by the broker's clock. A
contender that is not done after some seconds is stopped: its figures are those of what it wrote.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

from confluent_kafka import Producer

from bench.peers.catalogue import NO_PEER_DOES, PEERS, Peer
from bench.peers.environments import Program
from bench.peers.expected import WITH_ROW_BEFORE, Expected, ExpectedRow
from bench.peers.peer_task import PRODUCER, PeerTask
from bench.peers.row_before import without_row_before
from bench.process import MeasuredProcess
from bench.topics import BenchTopics
from bench.worker import BenchApplication
from bench.workload import OUTPUT_PARTITIONS, BenchLog
from tidegate.errors import RetryError, TidegateError
from tidegate.kernel.kernel_mode import KernelMode

KERNEL: Final = "tidegate, kernel"
PYTHON: Final = "tidegate, Python"
COPY: Final = "raw copy, confluent-kafka"
_MODES: Final = {KERNEL: KernelMode.ON, PYTHON: KernelMode.OFF}
_STATE_OF_WORKER: Final = "RocksDB, changelog topic"
_LOG_PARTITIONS: Final = 4
_WARM_UP: Final = 4  # a quarter
_LEAST_ROWS: Final = 1_000
_BEGIN_S: Final = 120.0
_QUIET_S: Final = 1.5
_LOOK_AGAIN_S: Final = 0.05
_FLUSH_S: Final = 120.0
_NEVER: Final = float("inf")


class PeerSizes(NamedTuple):
    """How many rows, how many rounds, and how long a contender may write in one."""

    rows: int
    rounds: int
    seconds: float


class PeerRound(NamedTuple):
    """What a contender did in one round."""

    rows: int
    rows_per_s: float
    cpu_us_per_row: float


class PeerResult(NamedTuple):
    """Medians of a contender's rounds.

    ``tidegate_rate`` is the rate of tidegate with the kernel over this one. ``over_tidegate_cpu`` is the
    processor time of a row, of all threads, over tidegate's with the kernel.
    """

    contender: str
    version: str
    rounds: int
    rows: int
    rows_per_s: float
    cpu_us_per_row: float
    over_copy: float
    tidegate_rate: float
    over_tidegate_cpu: float


class PeerNote(NamedTuple):
    """What to know of a contender beside its figures."""

    contender: str
    state: str
    does_not: str


class Contest(NamedTuple):
    """All results, and the reason for each contender that has none."""

    results: list[PeerResult]
    notes: list[PeerNote]
    skipped: dict[str, str]


class Sample(NamedTuple):
    """How many records the outputs held, and the processor time of the contender at that moment."""

    size: int
    cpu_s: float


def contest(log: BenchLog, topics: BenchTopics, directory: Path, sizes: PeerSizes) -> Contest:
    """Let all contenders do the job. Raises ``RetryError`` where tidegate itself does not."""
    expected = Expected.of(log, _LOG_PARTITIONS)
    arena = _Arena(log, expected, topics, directory, sizes.seconds)
    programs, skipped = _programs(directory)
    rounds: dict[str, list[PeerRound]] = {name: [] for name in (*_MODES, *(peer.name for peer in programs))}
    for number in range(sizes.rounds):
        for name, mode in _MODES.items():
            rounds[name].append(arena.worker(name, mode, number))
        for peer, program in programs.items():
            if peer.name not in skipped:
                try:
                    rounds[peer.name].append(arena.peer(peer, program, number))
                except TidegateError as error:
                    skipped[peer.name] = str(error)
    done = {name: found for name, found in rounds.items() if found and name not in skipped}
    return Contest(results(done), notes(), skipped)


def _programs(directory: Path) -> tuple[dict[Peer, Program], dict[str, str]]:
    programs, skipped = {}, {}
    for number, peer in enumerate(PEERS):
        home = directory / f"program-{number}"
        home.mkdir()
        try:
            programs[peer] = peer.program(home)
        except TidegateError as error:
            skipped[peer.name] = str(error)
    return programs, skipped


class _Arena:
    """The topics that all read, and what runs a contender on them."""

    def __init__(
        self, log: BenchLog, expected: Expected, topics: BenchTopics, directory: Path, seconds: float
    ) -> None:
        self._log = log
        self._expected = expected
        self._topics = topics
        self._directory = directory
        self._seconds = seconds
        self._rows = f"{directory.name}-rows"
        self._rows_with_before = f"{directory.name}-rows-with-before"
        self._fill(self._rows_with_before, lambda value: value)
        self._fill(self._rows, without_row_before)

    def peer(self, peer: Peer, program: Program, number: int) -> PeerRound:
        """Run a peer once. Raises ``RetryError`` when it ends, writes nothing or writes other bytes."""
        name = f"{self._directory.name}-{PEERS.index(peer)}-{number}"
        home = self._directory / name
        home.mkdir()
        target = f"{name}-target"
        self._topics.create(target, OUTPUT_PARTITIONS, stamped=True)
        source = self._rows_with_before if peer.copies else self._rows
        task = PeerTask(self._topics.bootstrap, source, target, name, str(home))
        log = self._directory / f"{name}.log"
        with MeasuredProcess(program.arguments, task.environment(), log, program.executable) as process:
            return self._finish(peer.name, process, [target])

    def worker(self, name: str, mode: KernelMode, number: int) -> PeerRound:
        """Run tidegate's worker once. Raises ``RetryError`` as ``peer`` does."""
        home = self._directory / f"{mode.value}-{number}"
        home.mkdir()
        with _worker(self._log, self._topics, home, mode) as (process, outputs):
            return self._finish(name, process, outputs)

    def _finish(self, name: str, process: MeasuredProcess, outputs: Sequence[str]) -> PeerRound:
        samples, ended_s = _watch(self._topics, process, outputs, len(self._expected.rows), self._seconds)
        process.stop()
        rows = [message for message in self._topics.messages(outputs) if message.key() is not None]
        self._expected.compare(name, ((row.key(), row.value()) for row in rows))
        stamps_s = sorted(row.timestamp()[1] / 1e3 for row in rows)
        return round_of(name, [stamp_s for stamp_s in stamps_s if stamp_s <= ended_s], samples)

    def _fill(self, topic: str, change: Callable[[bytes], bytes]) -> None:
        self._topics.create(topic, OUTPUT_PARTITIONS)
        producer = Producer({**PRODUCER, "bootstrap.servers": self._topics.bootstrap})
        for row in self._expected.rows:
            _produce(producer, topic, row, change(row.value))
        if left := producer.flush(_FLUSH_S):
            raise RetryError(f"{left} rows of {topic} were not written within {_FLUSH_S:.0f} s")


def _produce(producer: Producer, topic: str, row: ExpectedRow, value: bytes) -> None:
    while True:
        try:
            producer.produce(topic, value, row.key, row.partition)
            producer.poll(0)
            break
        except BufferError:
            producer.poll(0.1)


@contextmanager
def _worker(
    log: BenchLog, topics: BenchTopics, directory: Path, mode: KernelMode
) -> Iterator[tuple[MeasuredProcess, Sequence[str]]]:
    """A worker that begins to read the log; its feed was made before."""
    application = BenchApplication(topics, directory, _LOG_PARTITIONS, log.tables, WITH_ROW_BEFORE)
    with application.start_worker(kernel=mode.value) as worker:
        application.write(log.records[: log.head])
        application.create_feed(worker)
    application.write(log.records[log.head :])
    with application.start_worker(kernel=mode.value) as worker:
        yield worker, application.outputs


def _watch(
    topics: BenchTopics, process: MeasuredProcess, outputs: Sequence[str], rows: int, seconds: float
) -> tuple[list[Sample], float]:
    """Watch outputs grow until all rows are there or the time is over. Return the end as well, since 1970."""
    begin_by = time.monotonic() + _BEGIN_S
    before, samples = topics.size(outputs), list[Sample]()
    ends_at, grown_at = _NEVER, time.monotonic()
    while time.monotonic() < ends_at:
        process.require_running()
        size, now = topics.size(outputs) - before, time.monotonic()
        if size > (samples[-1].size if samples else 0):
            samples.append(Sample(size, process.cpu_s))
            grown_at = now
            if size >= _LEAST_ROWS:  # fewer may be markers, which a worker writes before its first row
                ends_at = min(ends_at, now + seconds)
        elif size >= rows and now - grown_at > _QUIET_S:
            break
        elif ends_at == _NEVER and now > begin_by:
            raise RetryError(f"it did not write {_LEAST_ROWS} rows within {_BEGIN_S:.0f} s")
        time.sleep(_LOOK_AGAIN_S)
    return samples, time.time()


def round_of(name: str, stamps_s: Sequence[float], samples: Sequence[Sample]) -> PeerRound:
    """Return the figures of a round, without its warm-up.

    ``stamps_s`` are the times of all rows, the earliest first. Raises ``RetryError`` when they are too few.
    """
    if len(stamps_s) < _LEAST_ROWS:
        raise RetryError(f"{name} wrote only {len(stamps_s)} rows, which is too few to measure")
    first, last = samples_of_figures(samples)
    warm_up = len(stamps_s) // _WARM_UP
    seconds = max(stamps_s[-1] - stamps_s[warm_up], 1e-3)  # the broker's clock has milliseconds
    rate = (len(stamps_s) - warm_up) / seconds
    cpu_s = last.cpu_s - first.cpu_s
    return PeerRound(len(stamps_s), rate, cpu_s / max(last.size - first.size, 1) * 1e6)


def samples_of_figures(samples: Sequence[Sample]) -> tuple[Sample, Sample]:
    """Return the first sample after the warm-up, and the last one. The first is another than the last."""
    last = samples[-1]
    warm = [sample for sample in samples[:-1] if sample.size >= last.size // _WARM_UP]
    return (warm or samples)[0], last


def results(rounds: dict[str, list[PeerRound]]) -> list[PeerResult]:
    """Return the medians of each contender, and their ratios to tidegate's and to the copy's."""
    versions = {peer.name: peer.version for peer in PEERS}
    medians = {name: _median(found) for name, found in rounds.items()}
    ours, copy = medians[KERNEL], medians.get(COPY)
    return [
        PeerResult(
            contender=name,
            version=versions.get(name, "-"),
            rounds=len(rounds[name]),
            rows=found.rows,
            rows_per_s=found.rows_per_s,
            cpu_us_per_row=found.cpu_us_per_row,
            over_copy=found.rows_per_s / copy.rows_per_s if copy else float("nan"),
            tidegate_rate=ours.rows_per_s / found.rows_per_s,
            over_tidegate_cpu=found.cpu_us_per_row / ours.cpu_us_per_row,
        )
        for name, found in medians.items()
    ]


def _median(rounds: Sequence[PeerRound]) -> PeerRound:
    return PeerRound(
        round(median(each.rows for each in rounds)),
        median(each.rows_per_s for each in rounds),
        median(each.cpu_us_per_row for each in rounds),
    )


def notes() -> list[PeerNote]:
    """Return what to know of every contender, measured or not."""
    ours = "all of it: see the page"
    return [
        *(PeerNote(name, _STATE_OF_WORKER, ours) for name in _MODES),
        *(PeerNote(peer.name, peer.state, f"{peer.does_not}; {NO_PEER_DOES}") for peer in PEERS),
    ]

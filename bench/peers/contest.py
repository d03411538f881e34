"""tidegate and its peers on one job. The contenders take turns, in several rounds, and each is a process of
its own.

The peers read rows as a feed writes them, and give each the row that it replaces (``row_before.py``).
tidegate reads the log that these rows come from, by a feed with ``diff``. So all write the same keys and
values. Before a figure counts, they are compared byte for byte with those of the reference. Raw copies copy
these rows.

The first tenth of the rows is warm-up. When a contender has written it, its process is suspended until all
other rows are in its topic. From then on its figures count, until its last row, by the broker's clock. So all
contenders begin with no row left to do and with everything ready, whether they work row by row or in large
batches. A contender that is not done after some seconds is stopped: its figures are those of what it wrote.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
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
_WARM_UP: Final = 10  # a tenth
_LEAST_ROWS: Final = 500
#: tidegate writes thousands of rows at a time. It may take longer, so that there are some batches to measure.
_BATCHES_S: Final = 5
_BEGIN_S: Final = 120.0
_QUIET_S: Final = 3.0
_LOOK_AGAIN_S: Final = 0.05
_FLUSH_S: Final = 120.0


class PeerSizes(NamedTuple):
    """The rows and the rounds of a contest, and the seconds for which a contender may write in one."""

    rows: int
    rounds: int
    seconds: float


class PeerRound(NamedTuple):
    """The result of a contender in one round."""

    rows: int
    rows_per_s: float
    cpu_us_per_row: float


class PeerResult(NamedTuple):
    """Medians of a contender's rounds.

    ``tidegate_rate`` is the rate of tidegate with the kernel over the contender's rate. ``over_tidegate_cpu``
    is the contender's processor time of a row, of all threads, over that of tidegate with the kernel.
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
    """A note on a contender, to be read beside its figures."""

    contender: str
    state: str
    does_not: str


class Contest(NamedTuple):
    """All results, and the reason for each contender that has none."""

    results: list[PeerResult]
    notes: list[PeerNote]
    skipped: dict[str, str]


def contest(log: BenchLog, topics: BenchTopics, directory: Path, sizes: PeerSizes) -> Contest:
    """Let all contenders do the job. Raises ``RetryError`` where tidegate with the kernel fails to do it."""
    expected = Expected.of(log, _LOG_PARTITIONS)
    arena = _Arena(log, expected, topics, directory, sizes.seconds)
    programs, skipped = _programs(directory)
    rounds: dict[str, list[PeerRound]] = {name: [] for name in (*_MODES, *(peer.name for peer in programs))}
    for number in range(sizes.rounds):
        for name, run in _contenders(arena, programs):
            if name not in skipped:
                try:
                    rounds[name].append(run(number))
                except TidegateError as error:
                    skipped[name] = str(error)
    if KERNEL in skipped:
        raise RetryError(skipped[KERNEL])
    done = {name: found for name, found in rounds.items() if found and name not in skipped}
    return Contest(results(done), notes(), skipped)


def _contenders(
    arena: _Arena, programs: Mapping[Peer, Program]
) -> Iterator[tuple[str, Callable[[int], PeerRound]]]:
    """Yield the name of each contender, and the function that runs it once. Its argument is the number of the
    round."""
    for name, mode in _MODES.items():
        yield name, partial(arena.worker, name, mode)
    for peer, program in programs.items():
        yield peer.name, partial(arena.peer, peer, program)


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
    """The place of a contest: it runs a contender on topics of its own."""

    def __init__(
        self, log: BenchLog, expected: Expected, topics: BenchTopics, directory: Path, seconds: float
    ) -> None:
        self._log = log
        self._expected = expected
        self._topics = topics
        self._directory = directory
        self._seconds = seconds

    def peer(self, peer: Peer, program: Program, number: int) -> PeerRound:
        """Run a peer once. Raises ``RetryError`` when it ends, writes nothing or writes other bytes."""
        name = f"{self._directory.name}-{PEERS.index(peer)}-{number}"
        home = self._directory / name
        home.mkdir()
        source, target = f"{name}-source", f"{name}-target"
        self._topics.create(source, OUTPUT_PARTITIONS)
        self._topics.create(target, OUTPUT_PARTITIONS, stamped=True)
        rows, warm_up = self._expected.rows, len(self._expected.rows) // _WARM_UP
        change = _as_it_is if peer.copies else without_row_before
        _fill(self._topics.bootstrap, source, rows[:warm_up], change)
        task = PeerTask(self._topics.bootstrap, source, target, name, str(home))
        log = self._directory / f"{name}.log"
        with MeasuredProcess(program.arguments, task.environment(), log, program.executable) as process:
            return self._finish(
                peer.name,
                process,
                [target],
                warm_up,
                lambda: _fill(self._topics.bootstrap, source, rows[warm_up:], change),
                self._seconds,
            )

    def worker(self, name: str, mode: KernelMode, number: int) -> PeerRound:
        """Run tidegate's worker once. Raises ``RetryError`` as ``peer`` does."""
        home = self._directory / f"{mode.value}-{number}"
        home.mkdir()
        log = self._log
        application = BenchApplication(self._topics, home, _LOG_PARTITIONS, log.tables, WITH_ROW_BEFORE)
        with application.start_worker(kernel=mode.value) as worker:
            application.write(log.records[: log.head])
            application.create_feed(worker)
        warm_up = log.head + len(log.records) // _WARM_UP
        application.write(log.records[log.head : warm_up])
        with application.start_worker(kernel=mode.value) as worker:
            return self._finish(
                name,
                worker,
                application.outputs,
                len(self._expected.rows) // _WARM_UP * 4 // 5,  # some transactions are open there
                lambda: application.write(log.records[warm_up:]),
                _BATCHES_S * self._seconds,
            )

    def _finish(
        self,
        name: str,
        process: MeasuredProcess,
        outputs: Sequence[str],
        warm_up: int,
        fill: Callable[[], None],
        seconds: float,
    ) -> PeerRound:
        self._wait_until_warm(process, outputs, warm_up, seconds)
        process.suspend()
        fill()
        began_s, begin_cpu_s = time.time(), process.cpu_s
        process.resume()
        cpu_s = self._watch(process, outputs, len(self._expected.rows), seconds)
        ended_s = time.time()
        process.stop()
        rows = [message for message in self._topics.messages(outputs) if message.key() is not None]
        self._expected.compare(name, ((row.key(), row.value()) for row in rows))
        stamps_s = [row.timestamp()[1] / 1e3 for row in rows]
        return round_of(name, stamps_s, began_s, ended_s, cpu_s - begin_cpu_s)

    def _wait_until_warm(
        self, process: MeasuredProcess, outputs: Sequence[str], rows: int, seconds: float
    ) -> None:
        """Wait until a contender has begun. Then wait until the outputs hold the rows and grow no more, or
        the time is over."""
        begin_by, first = time.monotonic() + _BEGIN_S, self._topics.size(outputs)
        while self._topics.size(outputs) - first < _LEAST_ROWS:  # fewer records may be markers
            process.require_running()
            if time.monotonic() > begin_by:
                raise RetryError(f"it did not write {_LEAST_ROWS} rows within {_BEGIN_S:.0f} s")
            time.sleep(_LOOK_AGAIN_S)
        self._watch(process, outputs, rows, seconds)

    def _watch(self, process: MeasuredProcess, outputs: Sequence[str], rows: int, seconds: float) -> float:
        """Watch until the outputs hold the rows and grow no more, or the time is over.

        Return the processor time that the process had taken when they had last grown.
        """
        now = time.monotonic()
        size, grown_at, cpu_s, until = 0, now, process.cpu_s, now + seconds
        while now < until and (size < rows or now - grown_at < _QUIET_S):
            process.require_running()
            if (new := self._topics.size(outputs)) > size:
                size, grown_at, cpu_s = new, now, process.cpu_s
            time.sleep(_LOOK_AGAIN_S)
            now = time.monotonic()
        return cpu_s


def _as_it_is(value: bytes) -> bytes:
    return value


def _fill(bootstrap: str, topic: str, rows: Sequence[ExpectedRow], change: Callable[[bytes], bytes]) -> None:
    producer = Producer({**PRODUCER, "bootstrap.servers": bootstrap})
    for row in rows:
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


def round_of(name: str, stamps_s: Sequence[float], began_s: float, ended_s: float, cpu_s: float) -> PeerRound:
    """Return the figures of the rows that were written between the two times; ``stamps_s`` are the times of
    all rows.

    Raises ``RetryError`` when these rows are too few.
    """
    measured = [stamp_s for stamp_s in stamps_s if began_s < stamp_s <= ended_s]
    if len(measured) < _LEAST_ROWS:
        raise RetryError(f"{name} wrote only {len(measured)} rows, which is too few to measure")
    seconds = max(max(measured) - began_s, 1e-3)  # the broker's clock has milliseconds
    return PeerRound(len(measured), len(measured) / seconds, cpu_s / len(measured) * 1e6)


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
    ours = "rows of an unfinished batch come again after a crash, and are recognised"
    return [
        *(PeerNote(name, _STATE_OF_WORKER, ours) for name in _MODES),
        *(PeerNote(peer.name, peer.state, f"{peer.does_not}; {NO_PEER_DOES}") for peer in PEERS),
    ]

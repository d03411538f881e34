"""End to end through the real broker: the worker, a raw copy, and a stock Faust agent, in one run.

The log is filled beforehand. The copy and the stock agent read the rows that the worker wrote, so that all
three write the same records. A rate counts from when a contender could begin to read (the worker: its
first partition was restored; the stock agent: its first row was written) to its last row in the broker.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from bench.process import MeasuredProcess
from bench.topics import BenchTopics, Written
from bench.worker import BenchApplication
from bench.workload import OUTPUT_PARTITIONS, BenchLog
from tidegate.errors import RetryError
from tidegate.kernel.kernel_mode import DEFAULT, KernelMode

#: The contender that copies what another one wrote.
RAW_COPY: Final = "raw copy-through"
LOG_PARTITIONS: Final = 4
_TIMEOUT_S: Final = 300.0


class Throughput(NamedTuple):
    """The result of one contender. ``cpu_us_per_row`` counts all threads of its process."""

    contender: str
    workload: str
    rows: int
    seconds: float
    rows_per_s: float
    cpu_us_per_row: float | None


@dataclass(slots=True)
class _CpuWatch:
    """The processor time of a process between two sizes of its output. Startup and the time after the end do
    not count."""

    process: MeasuredProcess
    samples: list[tuple[int, float]] = field(default_factory=list)

    def look(self, size: int) -> None:
        self.process.require_running()
        if size and (not self.samples or size > self.samples[-1][0]):
            self.samples.append((size, self.process.cpu_s))

    @property
    def last_s(self) -> float:
        """The processor time in seconds that the process had taken when its output was last seen to have
        grown."""
        return self.samples[-1][1]

    @property
    def us_per_row(self) -> float | None:
        """The processor time for a row; ``None`` when the run was too short to tell."""
        if len(self.samples) < 2:
            return None
        (first, begin), (last, end) = self.samples[0], self.samples[-1]
        return (end - begin) / (last - first) * 1e6


def end_to_end(log: BenchLog, topics: BenchTopics, directory: Path, faust_s: float) -> Iterator[Throughput]:
    """Run all three, one after the other; the stock agent for ``faust_s`` seconds only."""
    application = BenchApplication(topics, directory, LOG_PARTITIONS, log.tables)
    yield run_worker(application, log, topics)
    source = application.outputs[0]
    yield run_copy(topics, directory, source, log.name)
    yield _run_stock_faust(topics, directory, source, log.name, faust_s)


def run_worker(
    application: BenchApplication,
    log: BenchLog,
    topics: BenchTopics,
    *,
    contender: str = "tidegate worker",
    kernel: KernelMode = DEFAULT,
    done: Callable[[], None] = lambda: None,
) -> Throughput:
    """Measure the worker over the whole log. Its feed is created when only the log's head is written. The
    rest of the log is written while the worker is off.

    ``done`` is called before the worker is stopped. Raises ``RetryError`` when it does not write exactly the
    rows of the log.
    """
    with application.start_worker(kernel=kernel.value) as worker:
        application.write(log.records[: log.head])
        application.create_feed(worker)
    application.write(log.records[log.head :])
    before = topics.size(application.outputs)
    with application.start_worker(kernel=kernel.value) as worker:
        watch = _CpuWatch(worker)
        worker.wait_for("partition restored")
        cpu_s = worker.cpu_s
        topics.wait_until_quiet(application.outputs, before + log.rows, watch.look, _TIMEOUT_S)
        worker_cpu_us = (watch.last_s - cpu_s) / log.rows * 1e6
        done()
    written = topics.written(application.outputs)
    if written.rows != log.rows:
        raise RetryError(f"the worker wrote {written.rows} rows of {log.rows}")
    began_s = worker.said_at("partition restored")
    return _throughput(contender, log.name, written, began_s, worker_cpu_us)


def run_copy(topics: BenchTopics, directory: Path, source: str, workload: str) -> Throughput:
    """Measure the raw copy of what another contender wrote."""
    target = f"{source}-copy"
    topics.create(target, OUTPUT_PARTITIONS, stamped=True)
    arguments = ("-m", "bench.copy_through", topics.bootstrap, source, target)
    with MeasuredProcess(arguments, {}, directory / "copy.log") as process:
        process.wait(_TIMEOUT_S)
    written = topics.written([target])
    began_s, cpu_s = map(float, process.log.read_text().split()[-2:])
    return _throughput(RAW_COPY, workload, written, began_s, cpu_s / written.rows * 1e6)


def _run_stock_faust(
    topics: BenchTopics, directory: Path, source: str, workload: str, seconds: float
) -> Throughput:
    target = f"{source}-faust"
    topics.create(target, OUTPUT_PARTITIONS, stamped=True)
    environment = {"BENCH_BOOTSTRAP": topics.bootstrap, "BENCH_SOURCE": source, "BENCH_TARGET": target}
    arguments = ("-m", "faust", "-A", "bench.stock_faust:app", "worker", "-l", "warn", "--without-web")
    with MeasuredProcess(arguments, environment, directory / "faust.log") as process:
        watch = _CpuWatch(process)
        _watch_for(topics, [target], watch, seconds)
    written = topics.written([target])
    return _throughput("stock Faust agent", workload, written, written.first_s, watch.us_per_row)


def _watch_for(topics: BenchTopics, outputs: Sequence[str], watch: _CpuWatch, seconds: float) -> None:
    """Watch for ``seconds`` seconds from the first record on."""
    waited = time.monotonic() + _TIMEOUT_S
    while not topics.size(outputs):
        watch.process.require_running()
        if time.monotonic() > waited:
            raise RetryError(f"nothing came out within {_TIMEOUT_S:.0f} s; see {watch.process.log}")
        time.sleep(0.1)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        watch.look(topics.size(outputs))
        time.sleep(0.5)


def _throughput(
    contender: str, workload: str, written: Written, began_s: float, cpu_us: float | None
) -> Throughput:
    seconds = max(written.last_s - began_s, 1e-3)  # the broker's clock has milliseconds
    return Throughput(contender, workload, written.rows, seconds, written.rows / seconds, cpu_us)

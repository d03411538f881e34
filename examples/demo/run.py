"""The parts of a demo that write, feed and audit: a simulated store, a worker, a feed, and the verdict."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple, NoReturn

import click

from examples.demo.board import Board, in_background
from examples.demo.children import Child
from examples.demo.screen import Screen, lag_text
from sim.log.history import History
from stack.ports import LOOPBACK
from tidegate.access.destinations_file import destinations_of_environment
from tidegate.changefeed.definition.feed import Engine, FeedId, FeedState
from tidegate.changefeed.lifecycle.jobs import FeedView
from tidegate.changefeed.statement.definition import define_feed
from tidegate.client.feed_ids import new_feed_id
from tidegate.client.feed_topics import FeedTopics
from tidegate.client.jobs import Jobs
from tidegate.client.kafka.cluster import Cluster
from tidegate.client.kafka.connection import KafkaConnection
from tidegate.client.tail import TailFrom, tail_topics
from tidegate.client.why.worker_status import fetch_status, worker_url
from tidegate.errors import FatalError, InputError, RetryError, TidegateError
from tidegate.processor.push_policy import PushPolicy

RUNS: Final = Path("run/demo")
_START_TIMEOUT_S: Final = 120.0
_FEED_TIMEOUT_S: Final = 240.0  # executors of a cluster start before the first batch
_CATCH_UP_TIMEOUT_S: Final = 120.0
_PUSH_AGE_MS: Final = 1_000  # a tenth of the usual age, so that a short demo shows pushes
_SESSION_TIMEOUT_MS: Final = 6_000  # after so long others take over what a killed worker had
_LOOK_EVERY_S: Final = 0.25
_MS_PER_SECOND: Final = 1_000
#: Spark on this machine alone.
LOCAL: Final = "local[2]"
_EXECUTOR: Final = ("--conf", "spark.executor.memory=512m")  # executors of a cluster share one machine


def run_to_exit(work: Callable[[str, Path], int], runs: Path = RUNS) -> NoReturn:
    """Call ``work`` with a new name and a new directory of that name in ``runs``, and exit with its status.

    An error is shown as one sentence. What was started is stopped, also when the demo is told to end.
    """
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    name = f"demo{time.strftime('%m%d%H%M%S')}"
    directory = runs / name
    directory.mkdir(parents=True)
    try:
        sys.exit(work(name, directory))
    except TidegateError as error:
        sys.exit(f"The demo failed: {error}")
    except KeyboardInterrupt:
        sys.exit("The demo was stopped before its audit.")


@dataclass(frozen=True, slots=True)
class Options:
    """The options of the command line."""

    seconds: float
    rate: float
    seed: int
    partitions: int
    keep: bool


@dataclass(frozen=True, slots=True)
class Demo:
    """One run: its names and places. ``store`` has what differs from the demo's ``StoreOptions``."""

    options: Options
    bootstrap: str
    name: str
    directory: Path
    statement: str
    workers: Sequence[str] = ("worker",)
    store: Mapping[str, int] = field(default_factory=dict)
    engine: Engine = Engine.WORKERS
    #: Where Spark runs: the argument of ``--master``.
    master: str = LOCAL

    def data(self, worker: str) -> Path:
        """Return the directory in which a worker keeps its copy of the state."""
        return self.directory / f"{worker}-data"

    def command(self, worker: str) -> list[str]:
        """Return the module that runs the feeds, with its arguments."""
        if self.engine is Engine.WORKERS:
            return ["faust", "-A", "app.main", "worker"]
        checkpoint = self.data(worker).absolute()  # executors have working directories of their own
        arguments = ["--output-partitions", "4", "--checkpoint", str(checkpoint)]
        return ["tidegate.cli", "spark", "changefeed", *self.on_spark, *arguments]

    @property
    def on_spark(self) -> Sequence[str]:
        """The options that say where a job of Spark runs."""
        return ("--master", self.master, *(() if self.master == LOCAL else _EXECUTOR))

    def environment(self, worker: str) -> dict[str, str]:
        """Return the environment that a worker is given."""
        return {
            "TIDEGATE_BOOTSTRAP_SERVERS": self.bootstrap,
            "TIDEGATE_APP_ID": self.name,
            "TIDEGATE_TOPIC_PREFIX": f"{self.name}_",
            "TIDEGATE_DATA_DIR": str(self.data(worker)),
            "TIDEGATE_SESSION_TIMEOUT_MS": str(_SESSION_TIMEOUT_MS),
            "TIDEGATE_PUSH_AGE_MS": str(_PUSH_AGE_MS),
            "TIDEGATE_PUSH_REPEAT_MS": str(_PUSH_AGE_MS),
            **({} if self.master == LOCAL else {"SPARK_LOCAL_IP": LOOPBACK}),
        }

    @property
    def pushed_after_s(self) -> float:
        """The age at which the engine pushes a transaction, seconds."""
        age_ms = _PUSH_AGE_MS if self.engine is Engine.WORKERS else PushPolicy().age_ms
        return age_ms / _MS_PER_SECOND

    @property
    def history(self) -> Path:
        """The file in which the store writes down what it truly committed."""
        return self.directory / "history"


class Workers:
    """The demo's workers, by their names; a log file for each name."""

    def __init__(self, demo: Demo, stack: ExitStack) -> None:
        self._demo = demo
        self._running: dict[str, Child] = {}
        stack.callback(self._end)

    def start(self, name: str) -> None:
        """Start a worker, or start it again."""
        self._running[name] = Child(
            name,
            self._demo.command(name),
            self._demo.directory / f"{name}.log",
            environment=self._demo.environment(name),
        )

    def kill(self, name: str) -> None:
        """End one as a crash would."""
        self._running.pop(name).kill()

    def require_running(self) -> None:
        """Raise ``FatalError`` with the end of its log when one has ended by itself."""
        for child in self._running.values():
            child.require_running()

    def stop(self) -> None:
        """Stop them all, and wait. Raises ``FatalError`` when one does not end well."""
        for child in self._running.values():
            child.ask_to_stop()
        for child in self._running.values():
            child.wait()

    def _end(self) -> None:
        for child in self._running.values():
            child.end()


class Disturbance(NamedTuple):
    """An event that comes after the share ``at`` of the demo's time, between 0 and 1. ``what`` is the text
    that is shown then."""

    at: float
    what: str
    act: Callable[[Workers], None]


class Shown(NamedTuple):
    """The result of a demo. The markers were ``marker_lag_s`` seconds behind when the store was told to
    stop."""

    feed_id: FeedId
    feed: FeedView
    board: Board
    marker_lag_s: float | None


def show(
    demo: Demo,
    stack: ExitStack,
    created: Callable[[FeedView], None] = lambda _: None,
    disturbances: Sequence[Disturbance] = (),
) -> Shown:
    """Run store, workers and feed for the demo's time, on a screen, until the feed has caught up.

    ``created`` is called when the feed runs and has rows to come. Everything is stopped on return.
    """
    store = _start_store(demo, stack)
    workers = _start_workers(demo, store, stack)
    board = Board(f"{demo.name}_", demo.pushed_after_s)
    in_background(board.follow_store, store.output)
    feed_id, feed = _create_feed(demo, workers)
    created(feed)
    topics = FeedTopics.of(feed_id, feed)
    connection = KafkaConnection(demo.bootstrap, destinations=destinations_of_environment())
    records = tail_topics(connection, topics.all_topics, TailFrom.BEGINNING, follow=True)
    in_background(board.follow_topics, records, topics.decoders(connection.destinations))
    with Screen(board, demo.options.seconds, partial(_range_lag, demo)) as screen:
        _watch(demo, board, screen, store, workers, disturbances)
        marker_lag_s = board.lag_s
        _catch_up(demo, board, screen, store, workers)
    workers.stop()
    return Shown(feed_id, feed, board, marker_lag_s)


def _start_store(demo: Demo, stack: ExitStack) -> Child:
    options = demo.options
    arguments = ["examples.demo.store", "--bootstrap", demo.bootstrap, "--topic-prefix", f"{demo.name}_"]
    arguments += ["--partitions", str(options.partitions), "--rate", str(options.rate)]
    arguments += ["--seed", str(options.seed), "--history", str(demo.history)]
    arguments += [part for name, value in demo.store.items() for part in ("--set", name, str(value))]
    started = Child("range store", arguments, demo.directory / "store.log", read_output=True)
    stack.callback(started.end)
    return started


def _start_workers(demo: Demo, store: Child, stack: ExitStack) -> Workers:
    """Start the workers once the store has made the log topic."""
    connection = KafkaConnection(demo.bootstrap)
    for _ in within(_START_TIMEOUT_S, "the range store did not create its log topic"):
        store.require_running()
        if _has_topic(connection, f"{demo.name}_raftlog"):
            break
    workers = Workers(demo, stack)
    for name in demo.workers:
        workers.start(name)
    return workers


def _has_topic(connection: KafkaConnection, topic: str) -> bool:
    try:
        return bool(Cluster(connection).partition_counts([topic]))
    except (InputError, RetryError):
        return False


def _create_feed(demo: Demo, workers: Workers) -> tuple[FeedId, FeedView]:
    """Create the feed as soon as the workers are there to take it up."""
    workers.require_running()
    jobs = Jobs(KafkaConnection(demo.bootstrap), demo.name, appear_s=_START_TIMEOUT_S)
    now_ns = time.time_ns()
    definition = define_feed(demo.statement, new_feed_id(now_ns), now_ns).definition
    jobs.create(replace(definition, engine=demo.engine))
    feed = jobs.wait(definition.id, _FEED_TIMEOUT_S)
    workers.require_running()
    if feed.status is not FeedState.RUNNING:
        reason = "" if feed.current_state is None else f": {feed.current_state.error}"
        raise FatalError(f"The feed is {feed.status.value}{reason}")
    click.echo(f"Feed {definition.id} runs: {definition.description}")
    return definition.id, feed


def _watch(
    demo: Demo,
    board: Board,
    screen: Screen,
    store: Child,
    workers: Workers,
    disturbances: Sequence[Disturbance],
) -> None:
    """Show the board for the demo's time, and disturb it when that is due.

    If a broker starts again slowly, later disturbances come late, but none is left out.
    """
    begin, due = time.monotonic(), sorted(disturbances, key=lambda disturbance: disturbance.at)
    while (now := time.monotonic() - begin) < demo.options.seconds or due:
        if due and now >= due[0].at * demo.options.seconds:
            board.disturb(due[0].what)
            screen.refresh("running")
            due.pop(0).act(workers)
        store.require_running()
        workers.require_running()
        board.sample()
        screen.refresh("running")
        time.sleep(_LOOK_EVERY_S)


def _catch_up(demo: Demo, board: Board, screen: Screen, store: Child, workers: Workers) -> None:
    """Stop the store, and show the board until the feed has caught up with it.

    How far the markers are behind during this time is no part of the result: the store writes nothing new, so
    the time that passes is not lag.
    """
    store.ask_to_stop()
    while store.running:
        screen.refresh("the store closes what is open")
        time.sleep(_LOOK_EVERY_S)
    store.wait()
    last = max(version.timestamp for version in History.load(demo.history))
    for _ in within(_CATCH_UP_TIMEOUT_S, f"no marker reached {last}"):
        workers.require_running()
        board.sample()
        screen.refresh("the feed catches up")
        if board.resolved >= last:
            break
    screen.say(f"The feed is complete up to {board.resolved}.")


def _range_lag(demo: Demo) -> list[tuple[int, float]]:
    """Return the range id and the resolved lag in seconds of the ranges that are furthest behind."""
    found = [item for name in demo.workers for item in _range_lag_of(demo, name)]
    return sorted(found, key=lambda item: -item[1])


def _range_lag_of(demo: Demo, worker: str) -> list[tuple[int, float]]:
    try:
        status = fetch_status(worker_url(demo.data(worker), demo.name), 1.0)
    except (InputError, RetryError):
        return []
    return [(item["range_id"], item["resolved_lag_ms"] / 1000) for item in status["slowest_ranges"]]


def audit(demo: Demo, shown: Shown) -> int:
    """Compare the topics with the store's history; returns the exit status."""
    click.echo("The audit reads the output topics and the store's history:")
    command = ["tidegate.cli", "verify", "--feed", shown.feed_id, "--history", str(demo.history)]
    command += ["--bootstrap-servers", demo.bootstrap, "--app-id", demo.name]
    command += ["--topic-prefix", f"{demo.name}_"]
    verdict = subprocess.run([sys.executable, "-m", *command], check=False)  # noqa: S603 - our own
    board, seconds = shown.board, demo.options.seconds
    versions, rows = board.versions, board.rows
    click.echo(
        f"{versions:,} versions were committed in {seconds:.0f} s; {rows:,} rows ({rows / seconds:,.0f}/s) "
        f"and {board.markers:,} markers came out; {board.pushes:,} transactions were pushed. When the store "
        f"was stopped, the markers were {lag_text(shown.marker_lag_s)} behind the clock."
    )
    if board.splits:
        click.echo(f"The store split ranges {board.splits:,} times, and merged some {board.merges:,} times.")
    if demo.options.keep:
        click.echo(f"The broker stays up at {demo.bootstrap}; `python -m stack down kafka` stops it.")
    return verdict.returncode


def within(seconds: float, what: str) -> Iterator[None]:
    """Let a loop run several times a second. Raise ``FatalError`` with ``what`` after ``seconds``."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        yield
        time.sleep(_LOOK_EVERY_S)
    raise FatalError(f"{what} within {seconds:.0f} s")

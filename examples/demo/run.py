"""The parts of a demo that write, feed and audit: a simulated store, a worker, a feed, and the verdict."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple, NoReturn

import click

from examples.demo.board import Board, in_background
from examples.demo.children import Child
from examples.demo.screen import Screen, lag_text
from sim.history import History
from tidegate.changefeed.definition import define_feed
from tidegate.changefeed.feed import FeedId, FeedState
from tidegate.changefeed.jobs import FeedView
from tidegate.client.cluster import Cluster
from tidegate.client.connection import KafkaConnection
from tidegate.client.feed_ids import new_feed_id
from tidegate.client.feed_topics import FeedTopics
from tidegate.client.jobs import Jobs
from tidegate.client.tail import TailFrom, tail_topics
from tidegate.client.worker_status import fetch_status, worker_url
from tidegate.errors import FatalError, InputError, RetryError, TidegateError

_RUNS: Final = Path("run/demo")
_START_TIMEOUT_S: Final = 60.0
_FEED_TIMEOUT_S: Final = 60.0
_CATCH_UP_TIMEOUT_S: Final = 120.0
_PUSH_AGE_MS: Final = 1_000  # ten times as eager as usual, so that a short demo shows pushes at work
_LOOK_EVERY_S: Final = 0.25


def run_to_exit(work: Callable[[str, Path], int]) -> NoReturn:
    """Do the work in a directory of its own, given its name and place; what fails is one sentence.

    What was started is stopped, also when the demo is told to end.
    """
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    name = f"demo{time.strftime('%m%d%H%M%S')}"
    directory = _RUNS / name
    directory.mkdir(parents=True)
    try:
        sys.exit(work(name, directory))
    except TidegateError as error:
        sys.exit(f"The demo failed: {error}")
    except KeyboardInterrupt:
        sys.exit("The demo was stopped before its audit.")


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line asks for."""

    seconds: float
    rate: float
    seed: int
    partitions: int
    keep: bool


@dataclass(frozen=True, slots=True)
class Demo:
    """One run: its names and places."""

    options: Options
    bootstrap: str
    name: str
    directory: Path
    statement: str

    @property
    def environment(self) -> dict[str, str]:
        """What the worker is told."""
        return {
            "TIDEGATE_BOOTSTRAP_SERVERS": self.bootstrap,
            "TIDEGATE_APP_ID": self.name,
            "TIDEGATE_TOPIC_PREFIX": f"{self.name}_",
            "TIDEGATE_DATA_DIR": str(self.directory / "data"),
            "TIDEGATE_PUSH_AGE_MS": str(_PUSH_AGE_MS),
            "TIDEGATE_PUSH_REPEAT_MS": str(_PUSH_AGE_MS),
        }

    @property
    def history(self) -> Path:
        """Where the store writes down what it truly committed."""
        return self.directory / "history"


class Shown(NamedTuple):
    """What was seen. The markers were ``marker_lag_s`` behind when the store was told to stop, seconds."""

    feed_id: FeedId
    feed: FeedView
    board: Board
    marker_lag_s: float | None


def show(demo: Demo, stack: ExitStack, created: Callable[[FeedView], None] = lambda _: None) -> Shown:
    """Run store, worker and feed for the demo's time, on a screen, until the feed has caught up.

    ``created`` is called when the feed runs and has rows to come. Everything is stopped on return.
    """
    store = _start_store(demo, stack)
    worker = _start_worker(demo, store, stack)
    board = Board(f"{demo.name}_")
    in_background(board.follow_store, store.output)
    feed_id, feed = _create_feed(demo, worker)
    created(feed)
    topics = FeedTopics.of(feed_id, feed)
    records = tail_topics(KafkaConnection(demo.bootstrap), topics.all_topics, TailFrom.BEGINNING, follow=True)
    in_background(board.follow_topics, records, topics.decoders())
    with Screen(board, demo.options.seconds, partial(_range_lag, demo)) as screen:
        marker_lag_s = _watch(demo, board, screen, store, worker)
    worker.ask_to_stop()
    worker.wait()
    return Shown(feed_id, feed, board, marker_lag_s)


def _start_store(demo: Demo, stack: ExitStack) -> Child:
    options = demo.options
    arguments = ["examples.demo.store", "--bootstrap", demo.bootstrap, "--topic-prefix", f"{demo.name}_"]
    arguments += ["--partitions", str(options.partitions), "--rate", str(options.rate)]
    arguments += ["--seed", str(options.seed), "--history", str(demo.history)]
    started = Child("range store", arguments, demo.directory / "store.log", read_output=True)
    stack.callback(started.end)
    return started


def _start_worker(demo: Demo, store: Child, stack: ExitStack) -> Child:
    """Start the worker once the store has made the log topic."""
    connection = KafkaConnection(demo.bootstrap)
    for _ in within(_START_TIMEOUT_S, "the range store did not create its log topic"):
        store.require_running()
        if _has_topic(connection, f"{demo.name}_raftlog"):
            break
    worker = Child(
        "worker",
        ["faust", "-A", "app.main", "worker"],
        demo.directory / "worker.log",
        environment=demo.environment,
    )
    stack.callback(worker.end)
    return worker


def _has_topic(connection: KafkaConnection, topic: str) -> bool:
    try:
        return bool(Cluster(connection).partition_counts([topic]))
    except (InputError, RetryError):
        return False


def _create_feed(demo: Demo, worker: Child) -> tuple[FeedId, FeedView]:
    """Create the feed as soon as the worker is there to take it up."""
    worker.require_running()
    jobs = Jobs(KafkaConnection(demo.bootstrap), demo.name, appear_s=_START_TIMEOUT_S)
    now_ns = time.time_ns()
    definition = define_feed(demo.statement, new_feed_id(now_ns), now_ns).definition
    jobs.create(definition)
    feed = jobs.wait(definition.id, _FEED_TIMEOUT_S)
    worker.require_running()
    if feed.status is not FeedState.RUNNING:
        reason = "" if feed.current_state is None else f": {feed.current_state.error}"
        raise FatalError(f"The feed is {feed.status.value}{reason}")
    click.echo(f"Feed {definition.id} runs: {definition.description}")
    return definition.id, feed


def _watch(demo: Demo, board: Board, screen: Screen, store: Child, worker: Child) -> float | None:
    """Show the board until the store has run its time and the feed has caught up with it.

    Returns how far the markers were behind when the store was told to stop, seconds: later there is nothing
    more to mark, and what the clock adds is nobody's lag.
    """
    end = time.monotonic() + demo.options.seconds
    while time.monotonic() < end:
        store.require_running()
        worker.require_running()
        screen.refresh("running")
        time.sleep(_LOOK_EVERY_S)
    marker_lag_s = board.lag_s
    store.ask_to_stop()
    while store.running:
        screen.refresh("the store closes what is open")
        time.sleep(_LOOK_EVERY_S)
    store.wait()
    last = max(version.timestamp for version in History.load(demo.history))
    for _ in within(_CATCH_UP_TIMEOUT_S, f"no marker reached {last}"):
        worker.require_running()
        screen.refresh("the feed catches up")
        if board.resolved >= last:
            break
    screen.say(f"The feed is complete up to {board.resolved}.")
    return marker_lag_s


def _range_lag(demo: Demo) -> list[tuple[int, float]]:
    """(range id, resolved lag in seconds) of the ranges that are furthest behind."""
    try:
        status = fetch_status(worker_url(demo.directory / "data", demo.name), 1.0)
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
    if demo.options.keep:
        click.echo(f"The broker stays up at {demo.bootstrap}; `python -m stack down kafka` stops it.")
    return verdict.returncode


def within(seconds: float, what: str) -> Iterator[None]:
    """Go round a loop several times a second; ``FatalError`` after ``seconds``."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        yield
        time.sleep(_LOOK_EVERY_S)
    raise FatalError(f"{what} within {seconds:.0f} s")

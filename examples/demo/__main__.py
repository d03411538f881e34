"""``make demo``: everything that the README promises, in about a minute.

A broker is started, a simulated range store replays the flights of 2013 into it, a worker turns its log
into a changefeed, and at the end an audit compares the output topics with what the store committed.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import click

from examples.demo.board import Board, in_background
from examples.demo.children import Child
from examples.demo.screen import Screen, lag_text
from sim.history import History
from sim.nycflights import fetch_archive
from stack import background
from stack.kafka import KafkaBroker
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

_START_TIMEOUT_S: Final = 60.0
_FEED_TIMEOUT_S: Final = 60.0
_CATCH_UP_TIMEOUT_S: Final = 120.0
_PUSH_AGE_MS: Final = 1_000  # ten times as eager as usual, so that a short demo shows pushes at work
_LOOK_EVERY_S: Final = 0.25
_RUNS: Final = Path("run/demo")


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

    @property
    def statement(self) -> str:
        """The changefeed."""
        return (
            f"CREATE CHANGEFEED FOR TABLE flights, weather INTO 'kafka://{self.bootstrap}"
            f"?topic_prefix={self.name}_board_' WITH updated, resolved, initial_scan='no'"
        )


@click.command()
@click.option("--seconds", default=60.0, show_default=True, help="How long the store runs.")
@click.option("--rate", default=3000.0, show_default=True, help="Rows that it writes per second.")
@click.option("--seed", default=1, show_default=True, help="Decides everything but the times.")
@click.option("--partitions", default=8, show_default=True, help="Partitions of the log.")
@click.option("--keep", is_flag=True, help="Leave the broker up, with its topics.")
def main(seconds: float, rate: float, seed: int, partitions: int, keep: bool) -> None:
    """Real flights through a real broker, watched and audited."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)  # so that what was started is stopped
    try:
        sys.exit(_run(Options(seconds, rate, seed, partitions, keep)))
    except TidegateError as error:
        sys.exit(f"The demo failed: {error}")
    except KeyboardInterrupt:
        sys.exit("The demo was stopped before its audit.")


def _run(options: Options) -> int:
    name = f"demo{time.strftime('%m%d%H%M%S')}"
    directory = _RUNS / name
    directory.mkdir(parents=True)
    fetch_archive()
    with ExitStack() as stack:
        bootstrap = _broker(options, stack)
        demo = Demo(options, bootstrap, name, directory)
        click.echo(f"Kafka is up at {bootstrap}; logs and state are in {directory}")
        store = _store(demo, stack)
        worker = _worker(demo, store, stack)
        board = Board(f"{name}_")
        in_background(board.follow_store, store.output)
        feed_id, feed = _create_feed(demo, worker)
        topics = FeedTopics.of(feed_id, feed)
        connection = KafkaConnection(bootstrap)
        records = tail_topics(connection, topics.topics, TailFrom.BEGINNING, follow=True)
        in_background(board.follow_topics, records, topics.decoder)
        with Screen(board, options.seconds, partial(_range_lag, demo)) as screen:
            marker_lag_s = _watch(demo, board, screen, store, worker)
        worker.ask_to_stop()
        worker.wait()
        return _audit(demo, feed_id, board, marker_lag_s)


def _broker(options: Options, stack: ExitStack) -> str:
    if options.keep:
        return background.up("kafka").record.address
    return stack.enter_context(closing(KafkaBroker().start())).bootstrap


def _store(demo: Demo, stack: ExitStack) -> Child:
    options = demo.options
    arguments = ["examples.demo.store", "--bootstrap", demo.bootstrap, "--topic-prefix", f"{demo.name}_"]
    arguments += ["--partitions", str(options.partitions), "--rate", str(options.rate)]
    arguments += ["--seed", str(options.seed), "--history", str(demo.history)]
    store = Child("range store", arguments, demo.directory / "store.log", read_output=True)
    stack.callback(store.end)
    return store


def _worker(demo: Demo, store: Child, stack: ExitStack) -> Child:
    """Start the worker once the store has made the log topic."""
    connection = KafkaConnection(demo.bootstrap)
    for _ in _within(_START_TIMEOUT_S, "the range store did not create its log topic"):
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
    for _ in _within(_CATCH_UP_TIMEOUT_S, f"no marker reached {last}"):
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


def _audit(demo: Demo, feed_id: FeedId, board: Board, marker_lag_s: float | None) -> int:
    """Compare the topics with the store's history; returns the exit status."""
    click.echo("The audit reads the output topics and the store's history:")
    command = ["tidegate.cli", "verify", "--feed", feed_id, "--history", str(demo.history)]
    command += ["--bootstrap-servers", demo.bootstrap, "--app-id", demo.name]
    command += ["--topic-prefix", f"{demo.name}_"]
    verdict = subprocess.run([sys.executable, "-m", *command], check=False)  # noqa: S603 - our own
    versions, rows, seconds = board.versions, board.rows, demo.options.seconds
    click.echo(
        f"{versions:,} versions were committed in {seconds:.0f} s; {rows:,} rows ({rows / seconds:,.0f}/s) "
        f"and {board.markers:,} markers came out; {board.pushes:,} transactions were pushed. When the store "
        f"was stopped, the markers were {lag_text(marker_lag_s)} behind the clock."
    )
    if demo.options.keep:
        click.echo(f"The broker stays up at {demo.bootstrap}; `python -m stack down kafka` stops it.")
    return verdict.returncode


def _within(seconds: float, what: str) -> Iterator[None]:
    """Go round a loop several times a second; ``FatalError`` after ``seconds``."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        yield
        time.sleep(_LOOK_EVERY_S)
    raise FatalError(f"{what} within {seconds:.0f} s")


if __name__ == "__main__":
    main()

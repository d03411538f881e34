"""Loads output topics of changefeeds into tables of closed buckets.

``load_to_now`` loads all closed buckets once. ``follow_load`` goes on loading. ``Warehouse`` in
``tidegate.spark.warehouse.snapshots`` reads the tables.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from pyspark.sql import SparkSession

from tidegate.changefeed.definition.feed import FeedId
from tidegate.client.kafka.connection import KafkaConnection
from tidegate.client.kafka.topics import Topics
from tidegate.errors import RetryError
from tidegate.hlc import NANOS_PER_SECOND
from tidegate.spark.platform.executors import Needs
from tidegate.spark.platform.session import Placement, placed_session
from tidegate.spark.platform.signals import asked_to_end
from tidegate.spark.warehouse.buckets import Buckets
from tidegate.spark.warehouse.delta_tables import DeltaFollowers
from tidegate.spark.warehouse.load_pass import Loader, PassReport
from tidegate.spark.warehouse.load_source import FeedsSource
from tidegate.spark.warehouse.spark_tasks import spark_tasks


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """The settings of a load: which topics, and where to.

    ``feeds`` are feeds of the application ``app_id``. ``topics`` are those of their topics that are loaded;
    empty stands for all. ``root`` is the URI of the directory, which executors reach as well. ``delta`` keeps
    Delta tables beside the manifest. ``as_text`` names columns, as ``<topic>.<column>``, that are loaded as
    the feed prints them. ``records`` bounds how many records a task of a pass reads (0: all there is), but a
    task reads on to a marker that closes a bucket. A pass begins every ``interval_s`` seconds.
    """

    connection: KafkaConnection
    app_id: str
    topic_prefix: str
    feeds: tuple[FeedId, ...]
    root: str
    topics: tuple[str, ...] = ()
    bucket_ns: int = 60 * NANOS_PER_SECOND
    delta: bool = False
    as_text: tuple[str, ...] = ()
    records: int = 500_000
    interval_s: float = 30.0


Heard: TypeAlias = Callable[[PassReport], object]
Waits: TypeAlias = Callable[[RetryError], object]


def load_to_now(session: SparkSession, options: LoadOptions, heard: Heard = lambda _: None) -> PassReport:
    """Load every bucket that markers have closed by now; return the last pass.

    ``heard`` is called after each pass. Raises as ``Loader.run_pass`` does.
    """
    return _to_now(loader(session, options), heard)


def follow_load(
    session: SparkSession,
    options: LoadOptions,
    ended: threading.Event,
    heard: Heard = lambda _: None,
    waits: Waits = lambda _: None,
) -> None:
    """Load pass after pass until ``ended`` is set.

    ``waits`` is called when something does not answer, and the pass is tried again. Raises other errors as
    ``Loader.run_pass`` does.
    """
    go_on(loader(session, options), options.interval_s, ended, heard, waits)


def loader(session: SparkSession, options: LoadOptions) -> Loader:
    """Return a loader that runs its tasks in ``session``.

    Raises ``InputError`` when there are no such feeds.
    """
    delta = DeltaFollowers(options.root) if options.delta else None
    tasks = spark_tasks(session)
    return Loader(_source(options), tasks, options.root, Buckets(options.bucket_ns), delta, options.records)


def _source(options: LoadOptions) -> FeedsSource:
    return FeedsSource(
        options.connection,
        options.app_id,
        Topics.of(options).log,
        options.feeds,
        options.topics,
        options.as_text,
    )


def run_load(
    options: LoadOptions, placement: Placement, *, follow: bool, heard: Heard, waits: Waits
) -> PassReport | None:
    """Load once, or with ``follow`` again and again until SIGINT or SIGTERM, in a Spark session of its own.

    Only the main thread may call it. Raises as ``Loader.run_pass`` does.
    """
    _source(options).tables()  # a feed that cannot be loaded is refused before Spark starts
    name, needs = f"tidegate load {options.app_id}", Needs(spark_tasks.__module__)
    with placed_session(name, placement, needs) as session:
        if not follow:
            return load_to_now(session, options, heard)
        with asked_to_end() as ended:
            follow_load(session, options, ended, heard, waits)
        return None


def go_on(loading: Loader, interval_s: float, ended: threading.Event, heard: Heard, waits: Waits) -> None:
    """Run pass after pass until ``ended`` is set.

    Raises as ``Loader.run_pass`` does, but not ``RetryError``.
    """
    while not ended.is_set():
        try:
            report = loading.run_pass()
        except RetryError as error:
            waits(error)
        else:
            heard(report)
            if report.more:
                continue
        ended.wait(interval_s)


def _to_now(loading: Loader, heard: Heard) -> PassReport:
    while True:
        report = loading.run_pass()
        heard(report)
        if not report.more:
            return report

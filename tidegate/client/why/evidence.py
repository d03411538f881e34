"""Gathers all that is known when somebody asks why a feed's resolved timestamp stands still.

Each worker describes only its own partitions and feeds, so all of them are asked. Each answer is of its own
moment. A reader of two answers must allow for what happened between them.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, TypeAlias, TypeVar

from tidegate.changefeed.definition.feed import FeedId
from tidegate.changefeed.lifecycle.jobs import FeedView
from tidegate.client.jobs import Jobs
from tidegate.client.kafka.cluster import Cluster, GroupMember
from tidegate.client.kafka.connection import KafkaConnection
from tidegate.client.why.worker_status import fetch_ranges, fetch_status
from tidegate.errors import InputError, TidegateError
from tidegate.hlc import Timestamp, parse_decimal
from tidegate.processor.status import RangesIn
from tidegate.raftlog.entry import RangeId
from tidegate.spans import Span
from tidegate.verify import TopicPartition

Json: TypeAlias = Mapping[str, Any]
_Answer = TypeVar("_Answer")


@dataclass(frozen=True, slots=True)
class PartitionEvidence:
    """A log partition, as its worker describes it.

    ``tidegate.worker.operations.report.PartitionReport`` has the meanings.
    """

    partition: int
    state: str
    worker: str
    next_offset: int | None = None
    lag_records: int | None = None
    log_time_ms: int = 0
    inflight_rows: int = 0
    oldest_unacknowledged_ms: int = 0
    held_for: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FrontierEvidence:
    """A feed's frontier, as its worker describes it: ``span`` is the lowest span, at ``resolved``.

    ``high_water`` is ``None`` while the feed's initial scan is not done.
    """

    worker: str
    high_water: Timestamp | None
    span: Span
    resolved: Timestamp
    persisted: Timestamp | None = None
    marker: Timestamp | None = None
    resolved_interval_ms: int | None = None
    markers_wait: str = ""


@dataclass(frozen=True, slots=True)
class LaggingEvidence:
    """The feed's missing versions in a log partition: it has some of ``ranges`` ranges.

    ``complete_to`` is the timestamp up to which it has all versions of ``range_id``, ``None`` before its
    initial scan. ``tidegate.worker.operations.report.LaggingReport`` has the meanings.
    """

    partition: int
    ranges: int
    complete_to: Timestamp | None
    range_id: RangeId
    scans: int
    gc_reserve_ms: int | None
    standing_range: RangeId | None = None
    standing_request: int | None = None
    standing_ms: int | None = None


@dataclass(frozen=True, slots=True)
class DeliveryEvidence:
    """The state of a feed's rows in a log partition, as its worker describes it.

    ``tidegate.worker.operations.report.DeliveryReport`` has the meanings.
    """

    partition: int
    state: str
    worker: str
    waiting_bytes: int
    spool_bytes: int


@dataclass(frozen=True, slots=True)
class RegistryEvidence:
    """A feed whose rows wait for its schema registry, on ``worker``."""

    worker: str
    feed: str
    registry: str
    waiting_ms: int
    cause: str


@dataclass(frozen=True, slots=True)
class OverlapEvidence:
    """Keys that frontiers hold back, since several ranges have them at once.

    See ``tidegate.worker.operations.report.OverlapReport``.
    """

    span: Span
    ranges: tuple[int, ...]
    generations: tuple[int, ...]
    others: int = 0


@dataclass(frozen=True, slots=True)
class ForeignEvidence:
    """Foreign records of a topic that ``worker`` has passed over.

    ``tidegate.worker.operations.report.ForeignReport`` has the meanings.
    """

    worker: str
    topic: str
    records: int
    partition: int
    offset: int
    cause: str


@dataclass(frozen=True, slots=True)
class Workers:
    """The answers of the workers; ``silent`` are sentences about workers that did not answer.

    ``log`` is the log's topic, and ``log_partitions`` its partition count: 0 when no worker answered.
    """

    log: str = ""
    log_partitions: int = 0
    partitions: tuple[PartitionEvidence, ...] = ()
    frontier: FrontierEvidence | None = None
    registries: tuple[RegistryEvidence, ...] = ()
    lagging: tuple[LaggingEvidence, ...] = ()
    deliveries: tuple[DeliveryEvidence, ...] = ()
    push_enabled: bool = True
    push_age_ms: int = 0
    silent: tuple[str, ...] = ()
    overlaps: tuple[OverlapEvidence, ...] = ()
    foreign: tuple[ForeignEvidence, ...] = ()


@dataclass(frozen=True, slots=True)
class Evidence:
    """Everything known about a feed at the wall-clock time ``now_ms``.

    ``ranges`` are those of the frontier's lowest span, by log partition. ``members`` are the members of the
    workers' group, ``None`` when they are not known. ``frontier_place`` is the partition whose owner keeps
    the feed's frontier.
    """

    feed_id: FeedId
    feed: FeedView
    now_ms: int
    workers: Workers
    ranges: Mapping[int, RangesIn]
    members: tuple[GroupMember, ...] | None = None
    frontier_place: TopicPartition | None = None

    def partition(self, number: int) -> PartitionEvidence | None:
        """Return a log partition, if one of the workers that answered has it."""
        return next((each for each in self.workers.partitions if each.partition == number), None)

    def owner(self, place: TopicPartition) -> GroupMember | None:
        """Return the group's member that has a partition."""
        return next((member for member in self.members or () if place in member.partitions), None)


def gather(
    connection: KafkaConnection,
    app_id: str,
    feed_id: FeedId,
    urls: Sequence[str],
    now_ms: int,
    silent: Iterable[str] = (),
) -> Evidence:
    """Ask Kafka and the workers at ``urls``.

    ``silent`` are sentences about workers that are known to be away. Raises ``InputError`` for an unknown
    feed, and ``BrokerUnavailable``.
    """
    feed = Jobs(connection, app_id).feed(feed_id)
    return FeedQuestions(connection, app_id, urls, silent).gather(feed_id, feed, now_ms)


class FeedQuestions:
    """Asks about several feeds: what is the same for all of them it asks once, at the construction.

    The arguments are those of ``gather``.
    """

    def __init__(
        self, connection: KafkaConnection, app_id: str, urls: Sequence[str], silent: Iterable[str] = ()
    ) -> None:
        self._timeout_s = connection.timeout_s
        self._statuses, away = _ask(urls, lambda url: fetch_status(url, connection.timeout_s))
        self._silent = (*silent, *away)
        cluster = Cluster(connection)
        self._members = _members(cluster, app_id)
        self._checkpoints = f"{app_id}-checkpoints"
        self._checkpoint_partitions = _partition_count(cluster, self._checkpoints)

    def gather(self, feed_id: FeedId, feed: FeedView, now_ms: int) -> Evidence:
        """Return what is known about a feed.

        Only the ranges of its lowest span are asked for. Raises ``InputError`` for workers of another
        version.
        """
        workers = read_workers(feed_id, self._statuses, self._silent)
        ranges: dict[int, RangesIn] = {}
        if workers.frontier is not None and workers.frontier.span.start < workers.frontier.span.end:
            span = workers.frontier.span
            told, gone = _ask(self._statuses, lambda url: fetch_ranges(url, span, self._timeout_s))
            ranges = dict(chain.from_iterable(each.items() for each in told.values()))
            if gone:  # a partition whose ranges are not known must not look like one without ranges
                answered = {url: self._statuses[url] for url in told}
                workers = read_workers(feed_id, answered, (*self._silent, *gone))
        place = self._frontier_place(feed_id)
        return Evidence(feed_id, feed, now_ms, workers, ranges, self._members, place)

    def _frontier_place(self, feed_id: FeedId) -> TopicPartition | None:
        count = self._checkpoint_partitions
        if count is None:
            return None
        return TopicPartition(self._checkpoints, zlib.crc32(feed_id.encode()) % count)


def _members(cluster: Cluster, group: str) -> tuple[GroupMember, ...] | None:
    try:
        return cluster.members(group)
    except TidegateError:
        return None  # the question may be forbidden, and its answer is only used to name owners


def _partition_count(cluster: Cluster, topic: str) -> int | None:
    try:
        return cluster.partition_counts([topic])[topic]
    except TidegateError:
        return None


def _ask(urls: Iterable[str], question: Callable[[str], _Answer]) -> tuple[dict[str, _Answer], list[str]]:
    """Return the answers of the workers by address, and a sentence for each worker that gave none."""
    answers: dict[str, _Answer] = {}
    away = []
    for url in urls:
        try:
            answers[url] = question(url)
        except TidegateError as error:
            away.append(str(error))
    return answers, away


def read_workers(feed_id: FeedId, statuses: Mapping[str, Json], silent: tuple[str, ...] = ()) -> Workers:
    """Return what workers say at ``/status``, by their addresses.

    Raises ``InputError`` for another version's answer.
    """
    try:
        return _read(feed_id, statuses, silent)
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise InputError(
            f"What workers say of themselves cannot be read ({error!r}): they are of another version than "
            "this command. Use the command of their version."
        ) from None


def _read(feed_id: FeedId, statuses: Mapping[str, Json], silent: tuple[str, ...]) -> Workers:
    if not statuses:
        return Workers(silent=silent)
    first = next(iter(statuses.values()))
    settings = [each for status in statuses.values() for each in status["settings"]]
    rows = [(url, row) for url, status in statuses.items() for row in status["feeds"]]
    return Workers(
        first["log"],
        first["log_partitions"],
        tuple(_partition(url, row) for url, status in statuses.items() for row in status["partitions"]),
        next((_frontier(url, row) for url, row in rows if row["feed"] == feed_id), None),
        tuple(
            RegistryEvidence(url, row["feed"], row["registry"], row["waiting_ms"], row["cause"])
            for url, status in statuses.items()
            for row in status["schema_registry_waits"]
        ),
        tuple(
            _lagging(row)
            for status in statuses.values()
            for row in status["lagging_feeds"]
            if row["feed"] == feed_id
        ),
        tuple(
            DeliveryEvidence(row["partition"], row["state"], url, row["waiting_bytes"], row["spool_bytes"])
            for url, status in statuses.items()
            for row in status["deliveries"]
            if row["feed"] == feed_id
        ),
        all(each["push_enabled"] for each in settings),
        max(each["push_age_ms"] for each in settings),
        silent,
        tuple({_overlap(row): None for status in statuses.values() for row in status.get("overlaps", ())}),
        tuple(
            ForeignEvidence(url, row["topic"], row["records"], row["partition"], row["offset"], row["cause"])
            for url, status in statuses.items()
            for row in status.get("foreign_records", ())
        ),
    )


def _overlap(row: Json) -> OverlapEvidence:
    span = Span(bytes.fromhex(row["start"]), bytes.fromhex(row["end"]))
    others = row.get("others", 0)  # workers of earlier versions name all ranges
    return OverlapEvidence(span, tuple(row["ranges"]), tuple(row["generations"]), others)


def _partition(url: str, row: Json) -> PartitionEvidence:
    return PartitionEvidence(
        row["partition"],
        row["state"],
        url,
        row["next_offset"],
        row["lag_records"],
        row["log_time_ms"],
        row["inflight_rows"],
        row["oldest_unacknowledged_ms"],
        tuple(row["held_for"]),
    )


def _lagging(row: Json) -> LaggingEvidence:
    return LaggingEvidence(
        row["partition"],
        row["ranges"],
        None if row["complete_to"] is None else parse_decimal(row["complete_to"]),
        RangeId(row["range_id"]),
        row["scans"],
        row["gc_reserve_ms"],
        row.get("standing_range"),
        row.get("standing_request"),
        row.get("standing_ms"),
    )


def _frontier(url: str, row: Json) -> FrontierEvidence:
    return FrontierEvidence(
        url,
        None if row["high_water"] is None else parse_decimal(row["high_water"]),
        Span(bytes.fromhex(row["laggard"]), bytes.fromhex(row["laggard_end"])),
        parse_decimal(row["laggard_resolved"]),
        None if row["persisted"] is None else parse_decimal(row["persisted"]),
        None if row["marker"] is None else parse_decimal(row["marker"]),
        row["resolved_interval_ms"],
        row["markers_wait"],
    )

"""Gathers all that is known when somebody asks why a feed's resolved timestamp stands still.

Each worker describes only its own partitions and feeds, so all workers are asked. Each answer is of another
moment. So code that compares two answers must expect that something has changed between them.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final, TypeAlias, TypeVar

from tidegate.changefeed.definition.feed import FeedId
from tidegate.changefeed.definition.stored_fields import (
    flag,
    hexadecimal,
    items,
    optional,
    plain_members,
    plain_text,
    plain_whole,
    signed,
    text,
    timestamp,
    whole,
)
from tidegate.changefeed.lifecycle.jobs import FeedView
from tidegate.client.jobs import Jobs
from tidegate.client.kafka.cluster import Cluster, GroupMember
from tidegate.client.kafka.connection import KafkaConnection
from tidegate.client.why.worker_status import fetch_ranges, fetch_status
from tidegate.errors import InputError, TidegateError, brief
from tidegate.hlc import Timestamp
from tidegate.processor.status import RangesIn
from tidegate.raftlog.entry import RangeId
from tidegate.spans import Span
from tidegate.verify import TopicPartition

#: More partitions than Kafka has room for in a topic.
_MOST_PARTITIONS: Final = 1_000_000

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
    """A feed's frontier, as its worker describes it. ``span`` is the lowest span, and ``resolved`` its
    timestamp.

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
    """The versions that the feed misses in a log partition. They belong to ``ranges`` ranges, a number.

    ``complete_to`` is the timestamp up to which the feed has all versions of ``range_id``, its lowest range
    there; ``None`` before the end of the initial scan. ``tidegate.worker.operations.report.LaggingReport``
    has the meanings.
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
    """Keys that frontiers hold back, since several ranges have them at the same time.

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
    """The answers of the workers. ``silent`` are sentences about workers that did not answer.

    ``log`` is the log's topic, and ``log_partitions`` its partition count. If no worker answered, ``log`` is
    empty and ``log_partitions`` is 0.
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

    ``ranges`` are those with keys in the frontier's lowest span, by log partition. ``members`` are the
    members of the workers' group; ``None`` if they are not known. ``frontier_place`` is the partition of the
    topic of checkpoints whose owner keeps the feed's frontier; ``None`` if it is not known.
    """

    feed_id: FeedId
    feed: FeedView
    now_ms: int
    workers: Workers
    ranges: Mapping[int, RangesIn]
    members: tuple[GroupMember, ...] | None = None
    frontier_place: TopicPartition | None = None

    def partition(self, number: int) -> PartitionEvidence | None:
        """Return a log partition; ``None`` if no worker that answered has it."""
        return next((each for each in self.workers.partitions if each.partition == number), None)

    def owner(self, place: TopicPartition) -> GroupMember | None:
        """Return the group's member that has a partition; ``None`` if there is none, or none is known."""
        return next((member for member in self.members or () if place in member.partitions), None)


def gather(
    connection: KafkaConnection,
    app_id: str,
    feed_id: FeedId,
    urls: Sequence[str],
    now_ms: int,
    silent: Iterable[str] = (),
) -> Evidence:
    """Return what Kafka and the workers at ``urls`` tell about a feed.

    ``silent`` are sentences about workers that are known to be away. Raises ``InputError`` for an unknown
    feed, and ``BrokerUnavailable``.
    """
    feed = Jobs(connection, app_id).feed(feed_id)
    return FeedQuestions(connection, app_id, urls, silent).gather(feed_id, feed, now_ms)


class FeedQuestions:
    """Asks about several feeds. Questions that are the same for all feeds are asked once, at the
    construction.

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
        """Return all that is known about a feed.

        Of its ranges only those of its lowest span are asked for. Raises ``InputError`` for workers of
        another version.
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
    """Read the answers of workers at ``/status``. ``statuses`` are these answers, by the workers' addresses.

    Raises ``InputError`` for another version's answer.
    """
    try:
        return _read(feed_id, statuses, silent)
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise InputError(
            f"What workers say of themselves cannot be read ({brief(repr(error))}): they are of another "
            "version than this command. Use the command of their version."
        ) from None


def _read(feed_id: FeedId, statuses: Mapping[str, Json], silent: tuple[str, ...]) -> Workers:
    if not statuses:
        return Workers(silent=silent)
    first = next(iter(statuses.values()))
    settings = [each for _, each in _rows(statuses, "settings")]
    of_feed = {
        name: [(url, row) for url, row in _rows(statuses, name) if row["feed"] == feed_id]
        for name in ("feeds", "lagging_feeds", "deliveries")
    }
    return Workers(
        text(first, "log"),
        whole(first, "log_partitions", 1, _MOST_PARTITIONS),
        tuple(_partition(url, row) for url, row in _rows(statuses, "partitions")),
        next((_frontier(url, row) for url, row in of_feed["feeds"]), None),
        tuple(_registry(url, row) for url, row in _rows(statuses, "schema_registry_waits")),
        tuple(_lagging(row) for _, row in of_feed["lagging_feeds"]),
        tuple(_delivery(url, row) for url, row in of_feed["deliveries"]),
        all(flag(each, "push_enabled") for each in settings),
        max(signed(each, "push_age_ms") for each in settings),
        silent,
        tuple({_overlap(row): None for _, row in _rows(statuses, "overlaps", needed=False)}),
        tuple(_foreign(url, row) for url, row in _rows(statuses, "foreign_records", needed=False)),
    )


def _rows(
    statuses: Mapping[str, Json], name: str, *, needed: bool = True
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the objects of the list ``name`` of each status.

    A status may lack a list that is not ``needed``: workers of earlier versions do not have it.
    """
    for url, status in statuses.items():
        if needed or name in status:
            for row in items(status, name):
                yield url, plain_members(row, name)


def _registry(url: str, row: Json) -> RegistryEvidence:
    return RegistryEvidence(
        url, text(row, "feed"), text(row, "registry"), signed(row, "waiting_ms"), text(row, "cause")
    )


def _delivery(url: str, row: Json) -> DeliveryEvidence:
    return DeliveryEvidence(
        _number(row), text(row, "state"), url, whole(row, "waiting_bytes"), whole(row, "spool_bytes")
    )


def _foreign(url: str, row: Json) -> ForeignEvidence:
    return ForeignEvidence(
        url, text(row, "topic"), whole(row, "records"), _number(row), whole(row, "offset"), text(row, "cause")
    )


def _overlap(row: Json) -> OverlapEvidence:
    span = Span(hexadecimal(row, "start"), hexadecimal(row, "end"))
    ranges, generations = _numbers(row, "ranges"), _numbers(row, "generations")
    if len(ranges) != len(generations) or not ranges:
        raise ValueError("an overlap has one generation for each of its ranges, and this one does not")
    others = whole(row, "others") if "others" in row else 0  # workers of earlier versions name all ranges
    return OverlapEvidence(span, ranges, generations, others)


def _partition(url: str, row: Json) -> PartitionEvidence:
    return PartitionEvidence(
        _number(row),
        text(row, "state"),
        url,
        optional(whole, row, "next_offset"),
        optional(signed, row, "lag_records"),
        signed(row, "log_time_ms"),
        whole(row, "inflight_rows"),
        signed(row, "oldest_unacknowledged_ms"),
        tuple(plain_text(feed, "held_for") for feed in items(row, "held_for")),
    )


def _lagging(row: Json) -> LaggingEvidence:
    standing = {"standing_range": None, "standing_request": None, "standing_ms": None} | dict(row)
    return LaggingEvidence(
        _number(row),
        whole(row, "ranges"),
        optional(timestamp, row, "complete_to"),
        RangeId(whole(row, "range_id")),
        whole(row, "scans"),
        optional(signed, row, "gc_reserve_ms"),
        None if (range_id := optional(whole, standing, "standing_range")) is None else RangeId(range_id),
        optional(whole, standing, "standing_request"),
        optional(signed, standing, "standing_ms"),
    )


def _frontier(url: str, row: Json) -> FrontierEvidence:
    return FrontierEvidence(
        url,
        optional(timestamp, row, "high_water"),
        Span(hexadecimal(row, "laggard"), hexadecimal(row, "laggard_end")),
        timestamp(row, "laggard_resolved"),
        optional(timestamp, row, "persisted"),
        optional(timestamp, row, "marker"),
        optional(whole, row, "resolved_interval_ms"),
        text(row, "markers_wait"),
    )


def _number(row: Json) -> int:
    return whole(row, "partition", high=_MOST_PARTITIONS)


def _numbers(row: Json, name: str) -> tuple[int, ...]:
    return tuple(plain_whole(value, name) for value in items(row, name))

"""Histories that a feed may write to its output topics, drawn by Hypothesis, and the tables that should come
of them.

Rows of a key come in the order of their timestamps; a marker comes after every row at or below it; any
stretch of a partition's rows may come again, as after a crash of the feed's engine.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple
from zlib import crc32

from hypothesis import strategies as st

from tidegate.changefeed.definition.options import FeedOptions, Format
from tidegate.changefeed.encoding.decoder import decoder_for
from tidegate.changefeed.encoding.record import RecordDecoder
from tidegate.client.kafka.cluster import Bounds
from tidegate.client.subscribe.feed_term import ALONE, FeedTerm
from tidegate.hlc import NANOS_PER_SECOND, Timestamp
from tidegate.spark.warehouse.buckets import Buckets
from tidegate.spark.warehouse.columns import Columns, LoadedColumn
from tidegate.spark.warehouse.load_pass import SourceTable
from tidegate.verify import TopicPartition, TopicRecord

BASE_S: Final = 1_795_305_590  # ten seconds before a day begins, so that buckets stand on two days
BUCKETS: Final = Buckets(NANOS_PER_SECOND)
START: Final = Timestamp(BASE_S * NANOS_PER_SECOND + 300_000_000, 1)
#: Partitions of each topic.
TOPICS: Final[Mapping[str, int]] = {"accounts": 2, "pets": 1}
COLUMNS: Final = Columns(("id",), (LoadedColumn("id", "INT8"), LoadedColumn("name", "STRING")))
OPTIONS: Final = FeedOptions(updated=True, resolved_interval_ns=0)


class Version(NamedTuple):
    """A row version; ``name`` is ``None`` for a deletion."""

    topic: str
    id: int
    updated: Timestamp
    name: str | None

    @property
    def place(self) -> TopicPartition:
        """The place of its record."""
        return TopicPartition(self.topic, crc32(str(self.id).encode()) % TOPICS[self.topic])

    @property
    def record(self) -> tuple[bytes, bytes]:
        """The key and the value of its record."""
        row = None if self.name is None else {"id": self.id, "name": self.name}
        value = {"after": row, "updated": self.updated.decimal()}
        return f"[{self.id}]".encode(), json.dumps(value).encode()


@dataclass(frozen=True, slots=True)
class FeedHistory:
    """All versions, and the records of each partition."""

    versions: tuple[Version, ...]
    records: Mapping[TopicPartition, list[TopicRecord]] = field(repr=False)

    @property
    def places(self) -> list[TopicPartition]:
        """All partitions."""
        return sorted(self.records)

    def closed(self, ends: Mapping[TopicPartition, int]) -> int:
        """The end of the last bucket that is closed by the markers below these offsets, computed directly."""
        markers = [
            max(
                (_resolved(record) for record in self.records[place][: ends[place]] if record.key is None),
                default=0,
            )
            for place in self.places
        ]
        return min(markers) // NANOS_PER_SECOND * NANOS_PER_SECOND

    def upto(self, topic: str, at: Timestamp) -> list[Version]:
        """The versions of a topic's rows up to ``at``, in the order of their ids and timestamps."""
        return sorted(each for each in self.versions if each.topic == topic and each.updated <= at)

    def rows(self, topic: str, at: Timestamp) -> dict[int, tuple[str, Timestamp]]:
        """The rows that a topic's table has at ``at``."""
        newest = {each.id: each for each in self.upto(topic, at)}
        return {each.id: (each.name, each.updated) for each in newest.values() if each.name is not None}


def _resolved(record: TopicRecord) -> int:
    return int(json.loads(record.value or b"")["resolved"].partition(".")[0])


@st.composite
def feed_histories(draw: st.DrawFn) -> FeedHistory:
    """A feed of both topics with an initial scan at ``START``, and some seconds of changes."""
    scanned = draw(st.lists(st.tuples(st.sampled_from(sorted(TOPICS)), st.integers(0, 5)), unique=True))
    versions = [Version(topic, number, START, f"scan {number}") for topic, number in scanned]
    lines: dict[TopicPartition, list[tuple[bytes | None, bytes]]] = {
        TopicPartition(topic, number): [] for topic, count in TOPICS.items() for number in range(count)
    }
    now = START
    marker = Timestamp(0)
    waiting = list(versions)
    for _ in range(draw(st.integers(0, 12))):
        for _ in range(draw(st.integers(0, 5))):
            now = draw(_later(now))
            topic = draw(st.sampled_from(sorted(TOPICS)))
            name = draw(st.none() | st.sampled_from(["a", "b"]))
            version = Version(topic, draw(st.integers(0, 5)), now, name and f"{name} {now.decimal()}")
            versions.append(version)
            waiting.append(version)
        quiet = draw(st.integers(0, 3_000_000_000))
        wall = draw(st.sampled_from([now.wall + quiet, *(each.updated.wall for each in waiting)]))
        # Above the scan, whose rows come before any marker, and never falling.
        marker = Timestamp(max(wall, START.wall + 1, marker.wall))
        now = max(now, marker)
        _emit(draw, lines, waiting, marker)
    return FeedHistory(tuple(versions), _numbered(lines))


def _later(now: Timestamp) -> st.SearchStrategy[Timestamp]:
    """A timestamp above ``now``: often near it, often the end of a bucket or next to it."""
    bucket = BUCKETS.of(now.next())
    edges = [Timestamp(bucket), Timestamp(bucket, 1), Timestamp(bucket - 1, 1), Timestamp(bucket + 1)]
    near = st.integers(1, 2_500_000_000).map(lambda more: Timestamp(now.wall + more))
    return st.sampled_from([now.next(), *(edge for edge in edges if edge > now)]) | near


def _emit(
    draw: st.DrawFn,
    lines: dict[TopicPartition, list[tuple[bytes | None, bytes]]],
    waiting: list[Version],
    marker: Timestamp,
) -> None:
    """The rows up to the marker and maybe some above it, stretches that come again, and the marker."""
    ahead = draw(st.integers(0, 3))
    owed = [each for each in waiting if each.updated <= marker]
    more = [each for each in waiting if each.updated > marker][:ahead]
    for version in [*owed, *more]:
        waiting.remove(version)
        lines[version.place].append(version.record)
    if draw(st.booleans()):
        place = draw(st.sampled_from(sorted(lines)))
        _repeat(draw, lines[place])
    if draw(st.integers(0, 3)):
        text = json.dumps({"resolved": marker.decimal()}).encode()
        for line in lines.values():
            line.append((None, text))


def _repeat(draw: st.DrawFn, line: list[tuple[bytes | None, bytes]]) -> None:
    """A stretch of rows comes again; markers do not, for they never fall."""
    if line:
        start = draw(st.integers(0, len(line) - 1))
        end = draw(st.integers(start, len(line) - 1)) + 1
        line.extend([each for each in line[start:end] if each[0] is not None])


def _numbered(
    lines: Mapping[TopicPartition, Sequence[tuple[bytes | None, bytes]]],
) -> dict[TopicPartition, list[TopicRecord]]:
    return {
        place: [TopicRecord(*place, offset, key, value, 0) for offset, (key, value) in enumerate(line)]
        for place, line in lines.items()
    }


@dataclass(frozen=True, slots=True)
class ListReading:
    """Reads the records of a history."""

    history: FeedHistory

    def decoder(self) -> RecordDecoder:
        """See ``TopicReading``."""
        return decoder_for(OPTIONS)

    def records(self, place: TopicPartition, start: int, end: int) -> Iterator[TopicRecord]:
        """See ``TopicReading``."""
        yield from self.history.records[place][start:end]


class HistorySource:
    """A history as the loader's source: ``ends`` say how much of it is there.

    ``dips`` are by how much lower ends new leaders name, once.
    """

    def __init__(self, history: FeedHistory) -> None:
        self.history = history
        self.ends = dict.fromkeys(history.places, 0)
        self.lows = dict.fromkeys(history.places, 0)
        self.dips: dict[TopicPartition, int] = {}
        self.ids = {topic: f"id of {topic}" for topic in TOPICS}
        self.column_sets = dict.fromkeys(TOPICS, COLUMNS)
        self.complete: frozenset[str] = frozenset()
        self.starts = dict.fromkeys(TOPICS, START)
        self.scanned = True
        self.terms: dict[str, FeedTerm] = dict.fromkeys(TOPICS, ALONE)

    def tables(self) -> list[SourceTable]:
        """See ``LoadSource``."""
        reading = ListReading(self.history)
        return [
            SourceTable(
                topic,
                self.ids[topic],
                count,
                "1",
                Format.JSON,
                self.starts[topic],
                topic in self.complete,
                reading,
                self.terms[topic],
                self.scanned,
            )
            for topic, count in sorted(TOPICS.items())
        ]

    def bounds(self, tables: Sequence[SourceTable]) -> dict[TopicPartition, Bounds]:
        """See ``LoadSource``."""
        dips, self.dips = self.dips, {}
        return {
            place: Bounds(self.lows[place], max(self.ends[place] - dips.get(place, 0), 0))
            for place in self.history.places
        }

    def columns(self, topics: Sequence[str], loaded: Mapping[str, Columns]) -> dict[str, Columns]:
        """See ``LoadSource``."""
        return {topic: self.column_sets[topic] for topic in topics}


def as_rows(rows: Any) -> dict[int, tuple[str, Timestamp]]:
    """Rows of a table of current rows, as ``FeedHistory.rows`` gives them; each key once."""
    found = {row["id"]: (row["name"], Timestamp(row["_wall"], row["_logical"])) for row in rows.to_pylist()}
    assert len(found) == len(rows)
    return found


def as_versions(topic: str, changes: Any) -> list[Version]:
    """Changes of a table, as ``FeedHistory.upto`` gives them."""
    return sorted(
        Version(topic, row["id"], Timestamp(row["_wall"], row["_logical"]), row["name"])
        for row in changes.to_pylist()
    )


def history_of(lines: Mapping[TopicPartition, Sequence[Version | Timestamp]]) -> FeedHistory:
    """A history written by hand: rows and markers of partitions."""
    written: dict[TopicPartition, list[tuple[bytes | None, bytes]]] = {
        TopicPartition(topic, number): [] for topic, count in TOPICS.items() for number in range(count)
    }
    versions = []
    for place, line in lines.items():
        for each in line:
            if isinstance(each, Version):
                assert each.place == place
                versions.append(each)
                written[place].append(each.record)
            else:
                written[place].append((None, json.dumps({"resolved": each.decimal()}).encode()))
    return FeedHistory(tuple(dict.fromkeys(versions)), _numbered(written))

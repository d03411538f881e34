"""Reads what an earlier version has stored: the lines that ``write.py`` wrote."""

from __future__ import annotations

import json
import lzma
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Final, NamedTuple

from sim.log.history import History, HistoryVersion
from tests.logs import Record
from tidegate.changefeed.definition.feed import FeedId
from tidegate.changefeed.encoding.confluent import SubjectSchema
from tidegate.changefeed.lifecycle.jobs import JobsView
from tidegate.client.kafka.topics import Topics
from tidegate.hlc import Timestamp
from tidegate.processor.batch import OutputRecord, StateTable
from tidegate.raftlog.decode import decode_entry
from tidegate.raftlog.entry import DescriptorUpdate, Generation, RaftIndex, RangeId
from tidegate.spans import Span

#: Of the version before the modules were moved into chapters.
A248221: Final = Path(__file__).with_name("a248221")
PARTITIONS: Final = 3
TOPICS: Final = Topics("app", "s-")
#: The cluster of the workers, beside those that are named by their servers.
HOME: Final = ""


class Place(NamedTuple):
    """A partition of a topic of a cluster."""

    cluster: str
    topic: str
    partition: int


class StoredRecord(NamedTuple):
    """A committed record of a partition. Offsets have gaps where a transaction has ended."""

    offset: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    headers: tuple[tuple[str, bytes], ...]


class StoredTopic(NamedTuple):
    """A topic, with the id that the positions of its readers name."""

    cluster: str
    name: str
    id: str
    partitions: int
    config: Mapping[str, str]


class FinalRange(NamedTuple):
    """A range as it is behind the whole log."""

    id: RangeId
    generation: Generation
    span: Span
    applied: RaftIndex


class Stored:
    """Everything that a worker had stored when it was stopped, and what the store wrote later."""

    def __init__(self, directory: Path) -> None:
        self._lines: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for text in lzma.decompress((directory / "worker.jsonl.xz").read_bytes()).decode().splitlines():
            line = json.loads(text)
            self._lines[line["kind"]].append(line)
        self.copies = directory / "copies.tar.xz"

    @property
    def seconds(self) -> float:
        """The seconds that the run had lasted when the worker was stopped."""
        seconds: float = self._lines["clock"][0]["seconds"]
        return seconds

    @property
    def topics(self) -> Iterator[StoredTopic]:
        """All topics of all clusters."""
        for line in self._lines["topic"]:
            yield StoredTopic(*(line[name] for name in StoredTopic._fields))

    @cached_property
    def records(self) -> Mapping[Place, list[StoredRecord]]:
        """The records of each partition."""
        return _by_place(self._lines["record"])

    @cached_property
    def ends(self) -> Mapping[Place, int]:
        """The offset at which each partition ended when the worker was stopped."""
        ends: dict[Place, int] = {}
        for line in self._lines["end"]:
            ends.setdefault(_place(line), line["offset"])
        return ends

    @property
    def later(self) -> list[list[Record]]:
        """The records that the store wrote after the worker was stopped, by log partition."""
        later = _by_place(self._lines["later"])
        return [_as_log(later[Place(HOME, TOPICS.log, number)]) for number in range(PARTITIONS)]

    @property
    def log(self) -> list[list[Record]]:
        """The whole log."""
        before = (self.records[Place(HOME, TOPICS.log, number)] for number in range(PARTITIONS))
        return [_as_log(records) + more for records, more in zip(before, self.later, strict=True)]

    @property
    def group(self) -> dict[tuple[str, int], int]:
        """The offsets that the group of the workers has committed, by topic and partition."""
        return {(line["topic"], line["partition"]): line["offset"] for line in self._lines["group"]}

    @property
    def schemas(self) -> dict[SubjectSchema, int]:
        """The schemas that the registry knows, in the order of the ids."""
        return {SubjectSchema(line["subject"], line["text"]): line["id"] for line in self._lines["schema"]}

    @property
    def history(self) -> History:
        """The true history, to the end of the log."""
        return History(
            HistoryVersion(
                line["table"],
                bytes.fromhex(line["key"]),
                Timestamp(*line["at"]),
                bytes.fromhex(line["value"]),
            )
            for line in self._lines["version"]
        )

    @property
    def ranges(self) -> list[FinalRange]:
        """The ranges that there are in the end."""
        return [
            FinalRange(line["id"], line["generation"], Span(*map(bytes.fromhex, line["span"])), line["index"])
            for line in self._lines["range"]
        ]

    @property
    def descriptors(self) -> list[DescriptorUpdate]:
        """All versions of all tables that the log has."""
        found = (decode_entry(record.key, record.value) for records in self.log for record in records)
        return list(dict.fromkeys(entry for entry in found if isinstance(entry, DescriptorUpdate)))

    def said(self, partition: int) -> dict[str, Any]:
        """Return what the earlier version said of a log partition when it restored this state itself."""
        (line,) = (line for line in self._lines["restored"] if line["partition"] == partition)
        return {name: value for name, value in line.items() if name not in ("kind", "partition")}

    def rows(self, partition: int) -> dict[tuple[StateTable, bytes], bytes]:
        """The rows of state of a log partition: the last record of each key of the changelogs."""
        rows: dict[tuple[StateTable, bytes], bytes] = {}
        for table, name in TOPICS.changelogs().items():
            for record in self.records[Place(HOME, name, partition)]:
                assert record.key is not None
                if record.value is None:
                    rows.pop((table, record.key), None)
                else:
                    rows[table, record.key] = record.value
        return rows

    def jobs(self) -> JobsView:
        """The feeds as the jobs topic tells of them."""
        view = JobsView()
        for record in self.records[Place(HOME, TOPICS.jobs, 0)]:
            view.apply(record.key or b"", record.value)
        return view


@cache
def stored(directory: Path = A248221) -> Stored:
    """Read once what is stored in a directory."""
    return Stored(directory)


def _by_place(lines: list[dict[str, Any]]) -> Mapping[Place, list[StoredRecord]]:
    found: dict[Place, list[StoredRecord]] = defaultdict(list)
    for line in lines:
        headers = tuple((name, bytes.fromhex(value)) for name, value in line["headers"])
        key, value = _bytes(line["key"]), _bytes(line["value"])
        found[_place(line)].append(StoredRecord(line["offset"], key, value, line["ms"], headers))
    return found


def _place(line: dict[str, Any]) -> Place:
    return Place(line["cluster"], line["topic"], line["partition"])


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else bytes.fromhex(text)


def _as_log(records: list[StoredRecord]) -> list[Record]:
    return [Record(record.offset, record.key, record.value, record.timestamp_ms) for record in records]


class StoredQuery:
    """The records that a Spark query had stored when it was killed in the midst of a batch.

    ``archive`` has its state. ``batch`` is the number of that batch, and ``parts`` are its records in each
    log partition. ``left_behind`` are the feeds whose sink did not take rows any more; all feeds were
    complete up to ``complete_to`` when that began. ``rows`` are what all sinks have.
    """

    def __init__(self, directory: Path) -> None:
        text = lzma.decompress((directory / "query.jsonl.xz").read_bytes()).decode()
        batch, left_behind, *rows = map(json.loads, text.splitlines())
        self.archive = directory / "query.tar.xz"
        self.batch: int = batch["number"]
        self.parts = [slice(*part) for part in batch["parts"]]
        self.left_behind = frozenset(map(FeedId, left_behind["feeds"]))
        self.complete_to = Timestamp(*left_behind["complete_to"])
        self.rows = [_output_record(*line["row"]) for line in rows]


def _output_record(
    topic: str, partition: int, key: str, value: str | None, timestamp_ms: int, headers: list[list[str]]
) -> OutputRecord:
    pairs = [(name, bytes.fromhex(text)) for name, text in headers]
    return OutputRecord(topic, partition, bytes.fromhex(key), _bytes(value), timestamp_ms, pairs)

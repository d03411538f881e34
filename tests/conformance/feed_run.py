"""A changefeed case, run: its log through the in-memory reference engine, record by record.

The engine is the real one: partition processors, encoders, frontier, markers. A fault of the case is a step
of each partition that is lost after its rows went out: the processor is restored from the state before it
and takes the same record again, as a worker does that died between its rows and its commit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count, takewhile
from typing import Any

from tests.conformance.avro_text import avro_text
from tests.conformance.case import Case
from tests.conformance.case_feed import CaseFeed
from tests.conformance.case_history import History, read_history
from tests.conformance.case_log import CaseLog
from tests.conformance.case_tables import case_tables
from tests.hand_log import HandLog
from tests.logs import Record
from tests.unit.processor.driving import StoredState, fold
from tidegate.changefeed.definition.options import FeedOptions, Format, InitialScan
from tidegate.changefeed.definition.table_topics import table_topic
from tidegate.changefeed.encoding.confluent import SubjectSchema, unframe
from tidegate.changefeed.lifecycle.control import Activate, Failed, Register
from tidegate.hlc import ZERO, Timestamp
from tidegate.processor.batch import SOURCE_HEADER, ControlRecord, LogRecord, StepResult
from tidegate.processor.config import ProcessorConfig
from tidegate.processor.processor import PartitionProcessor
from tidegate.processor.reference import Emitted, OutputPartition, ReferenceEngine, content_id
from tidegate.raftlog.encode import encode_key
from tidegate.raftlog.entry import BROADCAST, Offset
from tidegate.raftlog.request import Scan
from tidegate.rows import TableDescriptor

_PARTITIONS = 3
#: Expectations of markers: the feed has some, whatever its options say.
_OF_MARKERS = frozenset({"resolved", "resolved_regex", "resolved_shape", "resolved_topics"})


def expects_no_marker(expect: Mapping[str, Any]) -> bool:
    """Whether a case expects that there is no marker at all: ``none``, or JSON's null."""
    return "resolved" in expect and str(expect["resolved"]).lower() in ("none", "null", "no marker", "[]")


@dataclass(frozen=True, slots=True)
class Line:
    """A row's record as text; an absent value shows as an empty one. ``headers`` are without provenance."""

    topic: str
    partition: int
    key: str
    value: str
    headers: Mapping[str, bytes] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The record as the cases list it."""
        return f"{self.topic}: {self.key}->{self.value}"


@dataclass(frozen=True, slots=True)
class FeedOutput:
    """The output of one feed: rows, and markers as texts, in the order of each partition."""

    activation: Activate
    written: Mapping[OutputPartition, Sequence[Line | str]]

    @property
    def rows(self) -> list[Line]:
        """The rows, in order of each key."""
        return [each for lines in self.written.values() for each in lines if isinstance(each, Line)]

    @property
    def markers(self) -> Mapping[OutputPartition, Sequence[str]]:
        """The markers of each partition in order."""
        return {
            place: [each for each in lines if isinstance(each, str)] for place, lines in self.written.items()
        }

    @property
    def texts(self) -> list[str]:
        """The rows as the cases list them."""
        return [line.text for line in self.rows]


@dataclass(frozen=True, slots=True)
class FeedRun:
    """The run of a case's feeds.

    ``failures`` are why feeds failed, ``retries`` the steps taken twice. ``succeeded`` is whether the feeds
    are a scan only, and it is done. ``duplicates`` is whether exact duplicates may be among what was written.
    ``subjects`` are those under which schemas were registered.
    """

    history: History
    tables: tuple[TableDescriptor, ...]
    outputs: tuple[FeedOutput, ...]
    failures: tuple[str, ...] = ()
    retries: int = 0
    succeeded: bool = False
    duplicates: bool = False
    subjects: frozenset[str] = frozenset()

    @property
    def options(self) -> FeedOptions:
        """The options of the feeds, which are all alike."""
        return self.outputs[0].activation.definition.options


@dataclass(frozen=True, slots=True)
class BuiltFeeds:
    """A case's feeds and the history that they read; the log holds it, and what its faults are."""

    history: History
    log: CaseLog
    feeds: list[Activate]


def build_feeds(
    case: Case,
    feed: CaseFeed,
    log: HandLog,
    *,
    table_ids: Iterator[int],
    range_ids: Iterator[int],
    origin: Timestamp = ZERO,
    scans: bool = False,
    prefix: str = "",
) -> BuiltFeeds:
    """Write a case's history into a log and define its feeds; see ``case_history`` for ``origin``.

    With ``scans`` the feeds begin with those that they ask for: ``CaseLog.answer`` has what they find.
    """
    expect = case["expect"]
    tables = case_tables(case, table_ids)
    # What SQL would round away can only be refused where it is stored all the same.
    rounded = not ("error" in expect or "error_regex" in expect)
    history = read_history(case, tables, origin=origin, scans=feed.scans, rounded=rounded)
    written = CaseLog(log, history, range_ids)
    written.write()
    markers = not expects_no_marker(expect) and (
        bool(expect.keys() & _OF_MARKERS)
        or any("resolved" in str(expect.get(name, "")) for name in ("monotone", "invariant"))
    )
    start = history.scan_at if scans else history.start
    feeds = feed.activations(written.descriptors, start=start, markers=markers, scans=scans, prefix=prefix)
    return BuiltFeeds(history, written, feeds)


def run_feed(case: Case, feed: CaseFeed) -> FeedRun:
    """Run a case. Raises ``FeedError`` for a table that no feed can be on."""
    log = HandLog(_PARTITIONS)
    built = build_feeds(case, feed, log, table_ids=count(104), range_ids=count(1), scans=feed.scans)
    refusals = tuple(reason for activation in built.feeds if (reason := _refusal(log, activation)))
    if refusals:
        nothing = tuple(read_output({}, activation, str) for activation in built.feeds)
        return FeedRun(built.history, tuple(built.log.descriptors), nothing, failures=refusals)
    schemas: dict[int, str] = {}
    engine = _run(log, built, schemas)
    outputs = tuple(read_output(engine.output, activation, schemas.__getitem__) for activation in built.feeds)
    return FeedRun(
        built.history,
        tuple(built.log.descriptors),
        outputs,
        failures=tuple(incident.cause for incident in engine.incidents),
        retries=engine.retries,
        succeeded=all(_has_succeeded(engine, activation) for activation in built.feeds),
        duplicates=engine.retries > 0,
        subjects=frozenset(engine.subjects),
    )


def _has_succeeded(engine: ReferenceEngine, feed: Activate) -> bool:
    """Whether the feed has succeeded, as ``next_step`` of the jobs decides it."""
    only = feed.definition.options.initial_scan is InitialScan.ONLY
    return only and engine.high_water(feed.feed_id) >= feed.start


def _refusal(log: HandLog, activation: Activate) -> str:
    """Return why a partition that knows the tables does not register the feed; empty when it does."""
    processor = PartitionProcessor(0, _PARTITIONS)
    processor.step(list(takewhile(_is_descriptor, log.partitions[0])))
    registered = processor.control([ControlRecord(Offset(0), Register(activation.definition))])
    return next((ack.reason for ack in registered.acks if isinstance(ack, Failed)), "")


def _is_descriptor(record: LogRecord) -> bool:
    return record.key == encode_key(BROADCAST)


def read_output(
    output: Mapping[OutputPartition, Sequence[Emitted]], feed: Activate, schema_text: Callable[[int], str]
) -> FeedOutput:
    """Return what an engine wrote for one feed; ``schema_text`` gives the schema with an id."""
    written: dict[OutputPartition, list[Line | str]] = {}
    options = feed.definition.options
    read = _Text(schema_text if options.format is Format.AVRO else None)
    for target in feed.targets:
        for partition in range(target.partitions):
            place = OutputPartition(table_topic(target.table, options), partition)
            records = output.get(OutputPartition(target.topic, partition), ())
            written[place] = [
                read(record.value) if record.key is None else _line(place, record, read) for record in records
            ]
    return FeedOutput(feed, written)


class _RetryingEngine(ReferenceEngine):
    """The reference engine with the state that a real one would have stored."""

    def __init__(self, feeds: Sequence[Activate], schemas: dict[int, str]) -> None:
        self.retries = 0
        self.subjects: set[str] = set()
        self._stored: list[StoredState] = [{} for _ in range(_PARTITIONS)]

        def schema_id(schema: SubjectSchema) -> int:
            schemas[content_id(schema)] = schema.text
            self.subjects.add(schema.subject)
            return content_id(schema)

        super().__init__(_PARTITIONS, feeds, schema_id=schema_id)

    def step_in_vain(self, partition: int, record: Record) -> None:
        """Take a record, write its rows, and forget that it was taken."""
        before = self._stored[partition]
        self.step(partition, [record])
        rows = ((table, key, value) for (table, key), value in before.items())
        self._processors[partition] = PartitionProcessor.restore(
            partition, _PARTITIONS, ProcessorConfig(), rows
        )
        self._stored[partition] = before
        self.retries += 1

    def _make_durable(self, processor: PartitionProcessor, result: StepResult) -> None:
        super()._make_durable(processor, result)
        self._stored[processor.partition] = fold(self._stored[processor.partition], result.changes)


def _run(log: HandLog, built: BuiltFeeds, schemas: dict[int, str]) -> _RetryingEngine:
    engine = _RetryingEngine(built.feeds, schemas)
    for partition, records in enumerate(log.partitions):
        faults = {ends[partition] for ends in built.log.faults}
        for record in records:
            if record.offset in faults:
                engine.step_in_vain(partition, record)
            engine.step(partition, [record])
    _answer_scans(log, built, engine)
    return engine


def _answer_scans(log: HandLog, built: BuiltFeeds, engine: _RetryingEngine) -> None:
    """Answer what the engine asks for, and what it asks for then, and so on."""
    taken = [len(records) for records in log.partitions]
    answered = 0
    while answered < len(engine.requests):
        request = engine.requests[answered]
        answered += 1
        if isinstance(request, Scan):
            built.log.answer(request)
        for partition, records in enumerate(log.partitions):
            for record in records[taken[partition] :]:
                engine.step(partition, [record])
            taken[partition] = len(records)


class _Text:
    """Keys and values as text; with ``schema_text`` they are framed Avro."""

    def __init__(self, schema_text: Callable[[int], str] | None) -> None:
        self._schema_text = schema_text

    def __call__(self, data: bytes | None) -> str:
        if not data or self._schema_text is None:
            return (data or b"").decode()
        schema_id, body = unframe(data)
        return avro_text(self._schema_text(schema_id), body)


def _line(place: OutputPartition, record: Emitted, read: _Text) -> Line:
    headers = {name: value for name, value in record.headers if name != SOURCE_HEADER}
    return Line(*place, read(record.key), read(record.value), headers)

"""Judges the output topics of a run: they have to be right, whatever went wrong on the way."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from sim.log.history import History, HistoryVersion, Mutated
from tests.simulation.kafka import Broker
from tests.simulation.registry import Registry
from tests.simulation.sinks import Refusal
from tidegate.changefeed.definition.feed import FeedState
from tidegate.changefeed.definition.options import FeedOptions
from tidegate.changefeed.encoding.decoder import decoder_for
from tidegate.changefeed.encoding.record import MarkerRecord, RecordDecoder, RowRecord
from tidegate.changefeed.encoding.resolved_topic import OffsetMarkerDecoder, marker_partitions
from tidegate.changefeed.lifecycle.jobs import FeedView, JobsView
from tidegate.client.expectations import expected_versions
from tidegate.errors import MalformedRecord
from tidegate.hlc import MAX, ZERO, Timestamp
from tidegate.raftlog.entry import DescriptorUpdate
from tidegate.rows import Catalog, decode_descriptor
from tidegate.verify import (
    AuditOptions,
    TopicPartition,
    TopicRecord,
    Verdict,
    ViolationKind,
    audit,
)

#: Topic, key and timestamp.
_Version: TypeAlias = tuple[str, bytes, Timestamp]
_MUTATED: Final = "outside its op log"
COMPLETE: Final = (FeedState.RUNNING, FeedState.SUCCEEDED)


@dataclass(frozen=True, slots=True)
class FeedTroubles:
    """The troubles that may end a feed: its sink's refusal, a drop, a change of data outside the op log."""

    refusal: Refusal | None
    dropped: bool
    mutations: Sequence[Mutated]


@dataclass(frozen=True, slots=True)
class FeedOutput:
    """The output of one feed, and what reads it."""

    feed: FeedView
    records: tuple[TopicRecord, ...]
    decoder: RecordDecoder

    @property
    def options(self) -> FeedOptions:
        """The options of the feed."""
        assert self.feed.definition is not None
        return self.feed.definition.options

    def decode(self, record: TopicRecord) -> MarkerRecord | RowRecord:
        """Return what a record says. Raises ``MalformedRecord``."""
        if record.topic == self.options.resolved_topic:
            return OffsetMarkerDecoder().decode(record.key, record.value)
        return self.decoder.decode(record.key, record.value, record.headers)

    def without(self, versions: Container[_Version | None]) -> FeedOutput:
        """Return the same output without the rows of these versions."""
        kept = tuple(each for each in self.records if self._version_of(each) not in versions)
        return replace(self, records=kept)

    @property
    def versions(self) -> set[_Version | None]:
        """The versions of its rows."""
        return {self._version_of(record) for record in self.records}

    def _version_of(self, record: TopicRecord) -> _Version | None:
        try:
            decoded = self.decode(record)
        except MalformedRecord:
            return None
        if isinstance(decoded, MarkerRecord) or decoded.updated is None:
            return None
        return record.topic, record.key or b"", decoded.updated

    @property
    def topics(self) -> dict[str, int]:
        """The number of partitions of each of its topics."""
        assert self.feed.current_state is not None
        targets = self.feed.current_state.targets
        aside = self.options.resolved_topic
        of_markers = {aside: marker_partitions(targets)} if aside else {}
        return of_markers | {target.topic: target.partitions for target in targets}

    @property
    def marked(self) -> dict[str, int]:
        """The topics that have its markers, with their numbers of partitions."""
        aside = self.options.resolved_topic
        return {topic: count for topic, count in self.topics.items() if topic == aside or not aside}


def read_jobs(broker: Broker, topic: str) -> JobsView:
    """All feeds as the committed records of the jobs topic tell of them."""
    view = JobsView()
    if topic in broker.topics:
        for _, entry in broker.committed(topic):
            view.apply(entry.key or b"", entry.value)
    return view


def read_output(broker: Broker, registry: Registry, feed: FeedView) -> FeedOutput:
    """Every committed record of a feed's topics, that of its markers first."""
    assert feed.current_state is not None
    assert feed.definition is not None
    topics = [target.topic for target in feed.current_state.targets]
    if aside := feed.definition.options.resolved_topic:
        topics.insert(0, aside)
    decoder = decoder_for(feed.definition.options, registry.schema_text)
    return FeedOutput(feed, tuple(_records(broker, topics)), decoder)


def _records(broker: Broker, topics: Iterable[str]) -> Iterator[TopicRecord]:
    for topic in topics:
        for place, entry in broker.committed(topic):
            assert entry.record is not None
            record = entry.record
            yield TopicRecord(
                topic, place.number, entry.offset, record.key, record.value, entry.timestamp, record.headers
            )


def covered(broker: Broker, registry: Registry, feed: FeedView) -> Timestamp:
    """The highest marker that every partition of a feed has."""
    if feed.current_state is None or not feed.current_state.targets:
        return ZERO
    return min(markers_of(read_output(broker, registry, feed)).values(), default=MAX)


def markers_of(output: FeedOutput) -> dict[tuple[str, int], Timestamp]:
    """The highest marker of each partition, by topic and number; zero where there is none.

    Markers that cannot be read are passed over here; the audit names them.
    """
    markers = {(topic, number): ZERO for topic, count in output.marked.items() for number in range(count)}
    for record in output.records:
        if record.key is None:
            try:
                decoded = output.decode(record)
            except MalformedRecord:
                continue
            assert isinstance(decoded, MarkerRecord)
            place = record.topic, record.partition
            markers[place] = max(markers[place], decoded.resolved)
    return markers


def violations(
    broker: Broker,
    registry: Registry,
    feed: FeedView,
    history: History,
    descriptors: Iterable[DescriptorUpdate],
    troubles: FeedTroubles,
    *,
    mirrored: bool = False,
) -> Iterator[str]:
    """Yield a sentence for every way in which a feed's output is wrong; none if it is right.

    A schema that the registry does not have yet is registered by the check, which does no harm: no record can
    name its id. A feed may have ended because of its ``troubles``; then what it wrote before is checked. If a
    mirror has filled the beginning of topics, some partitions have no marker yet.
    """
    state = feed.current_state
    assert feed.definition is not None
    name = feed.definition.id
    has_ended = may_have_ended(feed, troubles)
    if has_ended and (state is None or state.start is None):
        return
    if state is None or not (has_ended or state.state in COMPLETE) or state.start is None:
        yield f"feed {name} is {feed.status.value}: {'' if state is None else state.error}"
        return
    output = read_output(broker, registry, feed)
    catalog = Catalog()
    for update in descriptors:
        catalog.add(decode_descriptor(update.descriptor))
    topics = {target.table_id: target.topic for target in state.targets}
    mutated = [each for each in troubles.mutations if each.version.timestamp > state.start]
    owed: Iterable[HistoryVersion] = history
    if mutated and not has_ended:
        owed = sorted([*history, *(each.version for each in mutated)], key=lambda each: each.timestamp)
    expected = list(
        expected_versions(owed, catalog, output.options, topics, registry.id_of, start=state.start)
    )
    if mutated and has_ended:
        changed = {
            (row.topic, row.key, row.timestamp): each
            for each in mutated
            for row in expected_versions([each.version], catalog, output.options, topics, registry.id_of)
        }
        unseen = changed.keys() - output.versions
        mutated = [changed[version] for version in unseen]
        output = output.without(changed)
    succeeded = state.state is FeedState.SUCCEEDED
    options = AuditOptions(
        start=state.start,
        initial_scan=output.options.initial_scan,
        succeeded=succeeded,
        resolved_topic=output.options.resolved_topic,
        ends=_ends(broker, output),
    )
    report = audit(output.records, output.topics, options, output.decoder, expected)
    may_lack = {ViolationKind.MARKER_MISSING} if mirrored else set()
    if report.verdict is Verdict.VIOLATED and report.violation_counts.keys() - may_lack:
        yield f"feed {name}: {report}"
    yield from (f"feed {name}: {fault}" for fault in _own_rules(output))
    last = max((version.scanned_at or version.timestamp for version in expected), default=ZERO)
    if has_ended:
        yield from (
            f"feed {name} has markers up to {report.covered}, and never showed the change of {each}"
            for each in mutated
            if each.time <= report.covered
        )
    elif report.covered < last:
        yield f"feed {name} is complete up to {report.covered}, and was to come to {last}"


def _ends(broker: Broker, output: FeedOutput) -> dict[TopicPartition, int]:
    """Return the ends of the topics of a feed whose markers are on a topic of their own."""
    topics = output.topics if output.options.resolved_topic else {}
    return {
        TopicPartition(topic, number): broker.partition(topic, number).end
        for topic, count in topics.items()
        for number in range(count)
    }


def may_have_ended(feed: FeedView, troubles: FeedTroubles) -> bool:
    """Whether the feed has ended because of one of its troubles."""
    if feed.status is FeedState.DROPPED:
        return troubles.dropped
    state = feed.current_state
    if state is None or state.state is not FeedState.FAILED:
        return False
    refused = troubles.refusal is not None and troubles.refusal.words in state.error
    start = state.start or ZERO
    return refused or (_MUTATED in state.error and any(each.time >= start for each in troubles.mutations))


def _size_faults(options: FeedOptions, record: TopicRecord, row: RowRecord) -> Iterator[str]:
    """Yield faults of this rule: only a row's size decides whether it is written or left out, whoever writes
    it."""
    most = options.max_row_bytes
    if row.oversize_bytes and (record.value != b"" or row.oversize_bytes <= most):
        yield f"a row of {row.oversize_bytes} bytes was left out, and rows may have {most}"
    if most and not row.oversize_bytes and len(record.key or b"") + len(record.value or b"") > most:
        yield f"a row is whole that has more than {most} bytes"


def _own_rules(output: FeedOutput) -> Iterator[str]:
    """Yield violations of the promise, which is checked here once more, in little code and without the
    auditor's."""
    seen: dict[tuple[str, bytes, Timestamp], bytes | None] = {}
    newest: dict[tuple[str, bytes], Timestamp] = {}
    markers: dict[tuple[str, int], Timestamp] = {}
    for record in output.records:
        place = record.topic, record.partition
        marker = markers.get(place, ZERO)
        where = f"{record.topic}[{record.partition}] offset {record.offset}"
        try:
            decoded = output.decode(record)
        except MalformedRecord as error:
            yield f"{where}: {error}"
            continue
        if isinstance(decoded, MarkerRecord):
            if decoded.resolved < marker:
                yield f"{where}: marker {decoded.resolved} after {marker}"
            markers[place] = decoded.resolved
        elif isinstance(decoded, RowRecord) and decoded.updated is not None:
            key = record.key or b""
            yield from (f"{where}: {fault}" for fault in _size_faults(output.options, record, decoded))
            version = record.topic, key, decoded.updated
            if version in seen:
                if seen[version] != record.value:
                    yield f"{where}: another copy of {version}"
                continue
            seen[version] = record.value
            if decoded.updated <= marker:
                yield f"{where}: first row at {decoded.updated} after marker {marker}"
            if decoded.updated < newest.get((record.topic, key), ZERO):
                yield f"{where}: first row at {decoded.updated} after one at {newest[record.topic, key]}"
            newest[record.topic, key] = decoded.updated

"""What the output topics of a run must be, whatever went wrong on the way."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from sim.history import History
from tests.simulation.kafka import Broker
from tests.simulation.registry import Registry
from tests.simulation.sinks import Refusal
from tidegate.changefeed.decoder import decoder_for
from tidegate.changefeed.feed import FeedState
from tidegate.changefeed.jobs import FeedView, JobsView
from tidegate.changefeed.options import FeedOptions
from tidegate.changefeed.record import MarkerRecord, RecordDecoder, RowRecord
from tidegate.client.expectations import expected_versions
from tidegate.hlc import MAX, ZERO, Timestamp
from tidegate.raftlog.entry import DescriptorUpdate
from tidegate.rows import Catalog, decode_descriptor
from tidegate.verify import AuditOptions, TopicRecord, Verdict, ViolationKind, audit

COMPLETE: Final = (FeedState.RUNNING, FeedState.SUCCEEDED)


@dataclass(frozen=True, slots=True)
class FeedOutput:
    """What one feed has written, and what reads it."""

    feed: FeedView
    records: tuple[TopicRecord, ...]
    decoder: RecordDecoder

    @property
    def options(self) -> FeedOptions:
        """The feed's."""
        assert self.feed.definition is not None
        return self.feed.definition.options

    @property
    def topics(self) -> dict[str, int]:
        """Its topics, and how many partitions they have."""
        assert self.feed.current_state is not None
        return {target.topic: target.partitions for target in self.feed.current_state.targets}


def read_jobs(broker: Broker, topic: str) -> JobsView:
    """All feeds as the committed records of the jobs topic tell of them."""
    view = JobsView()
    if topic in broker.topics:
        for _, entry in broker.committed(topic):
            view.apply(entry.key or b"", entry.value)
    return view


def read_output(broker: Broker, registry: Registry, feed: FeedView) -> FeedOutput:
    """Every committed record of a feed's topics."""
    assert feed.current_state is not None
    assert feed.definition is not None
    topics = [target.topic for target in feed.current_state.targets]
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
    """The highest marker of each partition, by topic and number; zero where there is none."""
    markers = {(topic, number): ZERO for topic, count in output.topics.items() for number in range(count)}
    for record in output.records:
        if record.key is None:
            decoded = output.decoder.decode(record.key, record.value)
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
    refusal: Refusal | None = None,
    *,
    mirrored: bool = False,
) -> Iterator[str]:
    """Every way in which a feed's output is not what it has to be; none for one that is as it should.

    A schema that the registry has not is registered on the way, for no record can name its id. A feed whose
    sink has a ``refusal`` may have failed for it. Topics that a mirror began lack markers in some partitions.
    """
    state = feed.current_state
    assert feed.definition is not None
    name = feed.definition.id
    is_refused = has_been_refused(feed, refusal)
    if state is None or not (is_refused or state.state in COMPLETE) or state.start is None:
        yield f"feed {name} is {feed.status.value}: {'' if state is None else state.error}"
        return
    output = read_output(broker, registry, feed)
    catalog = Catalog()
    for update in descriptors:
        catalog.add(decode_descriptor(update.descriptor))
    topics = {target.table_id: target.topic for target in state.targets}
    expected = list(
        expected_versions(history, catalog, output.options, topics, registry.id_of, start=state.start)
    )
    succeeded = state.state is FeedState.SUCCEEDED
    options = AuditOptions(start=state.start, initial_scan=output.options.initial_scan, succeeded=succeeded)
    report = audit(output.records, output.topics, options, output.decoder, expected)
    may_lack = {ViolationKind.MARKER_MISSING} if mirrored else set()
    if report.verdict is Verdict.VIOLATED and report.violation_counts.keys() - may_lack:
        yield f"feed {name}: {report}"
    yield from (f"feed {name}: {fault}" for fault in _own_rules(output))
    last = max((version.scanned_at or version.timestamp for version in expected), default=ZERO)
    if report.covered < last and not is_refused:
        yield f"feed {name} is complete up to {report.covered}, and was to come to {last}"


def has_been_refused(feed: FeedView, refusal: Refusal | None) -> bool:
    """Whether the feed has failed for the reason that its sink gave it."""
    state = feed.current_state
    failed = state is not None and state.state is FeedState.FAILED
    return refusal is not None and state is not None and failed and refusal.words in state.error


def _own_rules(output: FeedOutput) -> Iterator[str]:
    """The promise once more, in as few words as possible and without the auditor's code."""
    seen: dict[tuple[str, bytes, Timestamp], bytes | None] = {}
    newest: dict[tuple[str, bytes], Timestamp] = {}
    markers: dict[tuple[str, int], Timestamp] = {}
    for record in output.records:
        place = record.topic, record.partition
        marker = markers.get(place, ZERO)
        decoded = output.decoder.decode(record.key, record.value)
        where = f"{record.topic}[{record.partition}] offset {record.offset}"
        if isinstance(decoded, MarkerRecord):
            if decoded.resolved < marker:
                yield f"{where}: marker {decoded.resolved} after {marker}"
            markers[place] = decoded.resolved
        elif isinstance(decoded, RowRecord) and decoded.updated is not None:
            key = record.key or b""
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

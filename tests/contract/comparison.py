"""Compares the outputs of two engines: what has to be the same in both, and the rules that each has to keep
by itself."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from tests.contract.engine import Output
from tests.contract.known_schemas import schema_text
from tidegate.changefeed.encoding.decoder import decoder_for
from tidegate.changefeed.encoding.record import MarkerRecord, RecordDecoder
from tidegate.changefeed.encoding.resolved_topic import OffsetMarkerDecoder
from tidegate.changefeed.lifecycle.control import Activate
from tidegate.hlc import NANOS_PER_MS, ZERO, Timestamp
from tidegate.processor.batch import SOURCE_HEADER
from tidegate.processor.reference import Emitted, OutputPartition

_OFFSETS: Final = OffsetMarkerDecoder()


class KeyOnPartition(NamedTuple):
    """A partition and a key. The records of one key on one partition are ordered."""

    place: OutputPartition
    key: bytes


def of_topics(output: Output, topics: Iterable[str]) -> Output:
    """The part of an output that stands on these topics."""
    wanted = frozenset(topics)
    return {place: records for place, records in output.items() if place.topic in wanted and records}


def rows_by_key(output: Output) -> Mapping[KeyOnPartition, Sequence[Emitted]]:
    """The rows of each key in order, exact duplicates and provenance left out."""
    found: dict[KeyOnPartition, dict[Emitted, None]] = defaultdict(dict)
    for place, records in output.items():
        for record in records:
            if record.key is not None:
                found[KeyOnPartition(place, record.key)][_without_provenance(record)] = None
    return {key: list(records) for key, records in found.items()}


def _without_provenance(record: Emitted) -> Emitted:
    return record._replace(headers=tuple(pair for pair in record.headers if pair[0] != SOURCE_HEADER))


def records_at(feed: Activate, output: Output, place: OutputPartition) -> list[Emitted]:
    """The records of a partition of rows; markers on a topic of their own stand where their offsets say."""
    records = list(output.get(place, ()))
    aside = feed.definition.options.resolved_topic
    if not aside:
        return records
    placed = [
        (_OFFSETS.decode(marker.key, marker.value).offsets[place.topic], marker)
        for marker in output.get(OutputPartition(aside, place.partition), ())
    ]
    for before, (offset, marker) in enumerate(sorted(placed, key=lambda each: each[0])):
        assert offset + before <= len(records)
        records.insert(offset + before, marker)
    return records


def markers(feed: Activate, records: Iterable[Emitted]) -> Iterator[Timestamp]:
    """The timestamps of the markers among the records of one partition, in order."""
    decoder = decoder_of_markers(feed)
    for record in records:
        if record.key is None:
            decoded = decoder.decode(None, record.value)
            assert isinstance(decoded, MarkerRecord)
            yield decoded.resolved


def decoder_of_markers(feed: Activate) -> RecordDecoder:
    """Return a decoder of the feed's markers, on whichever topic they stand."""
    options = feed.definition.options
    return _OFFSETS if options.resolved_topic else decoder_for(options, schema_text)


def unseen_rows_below_markers(feed: Activate, records: Iterable[Emitted]) -> list[tuple[Timestamp, Emitted]]:
    """Return every wrong marker, each with a row at or below it that comes after the marker and did not come
    before it."""
    decoder, of_markers = decoder_for(feed.definition.options, schema_text), decoder_of_markers(feed)
    last, seen, lies = ZERO, set[Emitted](), []
    for record in records:
        if record.key is None:
            decoded = of_markers.decode(None, record.value)
            assert isinstance(decoded, MarkerRecord)
            last = max(last, decoded.resolved)
        else:
            row = _without_provenance(record)
            if row not in seen and _timestamp(decoder, record) <= last:
                lies.append((last, record))
            seen.add(row)
    return lies


def _timestamp(decoder: RecordDecoder, record: Emitted) -> Timestamp:
    """Return the row's timestamp. If the row does not tell it, return the highest one that its record time
    allows, so that no marker is wrongly called a lie."""
    decoded = decoder.decode(record.key, record.value, record.headers)
    stamp = getattr(decoded, "updated", None)
    if isinstance(stamp, Timestamp):
        return stamp
    assert record.timestamp_ms is not None
    return Timestamp((record.timestamp_ms + 1) * NANOS_PER_MS - 1)

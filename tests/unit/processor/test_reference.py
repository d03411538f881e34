"""The engine in memory: what it writes for feeds, and what it passes between partitions."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise, permutations
from typing import Final

import pytest

from tests.feeds import WITH_MARKERS, activation
from tests.hand_log import at
from tests.unit.processor.logs import OTHER, PLAIN, opened
from tests.unit.processor.partitions import chain_log
from tests.unit.processor.schemed import schemas_for, schemed_options
from tidegate.changefeed.definition.feed import FeedId
from tidegate.changefeed.encoding.confluent import MAX_SCHEMA_ID, SubjectSchema, frame_prefix
from tidegate.changefeed.encoding.json_decoder import parse_record
from tidegate.changefeed.encoding.record import MarkerRecord, RowRecord
from tidegate.errors import FeedError
from tidegate.hlc import Timestamp
from tidegate.processor.reference import Emitted, OutputPartition, ReferenceEngine, content_id

_FEED: Final = FeedId("feed")


def _of_topic(engine: ReferenceEngine, topic: str) -> dict[int, list[Emitted]]:
    return {place.partition: records for place, records in engine.output.items() if place.topic == topic}


def _markers(records: Sequence[Emitted]) -> list[Timestamp]:
    read = [parse_record(record.key, record.value) for record in records]
    return [each.resolved for each in read if isinstance(each, MarkerRecord)]


def _rows(engine: ReferenceEngine) -> list[Timestamp]:
    read = [parse_record(each.key, each.value) for records in engine.output.values() for each in records]
    return sorted(each.updated for each in read if isinstance(each, RowRecord) and each.updated)


# ---- markers ----


@pytest.mark.parametrize("batch", [1, 99])
@pytest.mark.parametrize("repeats", [1, 3])
def test_each_marker_comes_once_in_every_partition_of_each_topic(repeats: int, batch: int) -> None:
    log, plain = opened()
    log.open_range(2, OTHER.span, close=20)
    engine = ReferenceEngine(1, [activation([PLAIN.descriptor, OTHER.descriptor], output_partitions=2)])
    for closes in (7, 8):
        for _ in range(repeats):
            plain.heartbeat(closes)
    records = log.partitions[0]
    for first in range(0, len(records), batch):
        engine.step(0, records[first : first + batch])
    places = [OutputPartition(topic, partition) for topic in ("plain", "other") for partition in range(2)]
    found = [_markers(engine.output[place]) for place in places]
    assert found == [found[0]] * 4
    assert found[0] == sorted({*found[0]})
    assert found[0][-1] == engine.high_water(_FEED) == at(8)


def test_markers_keep_the_interval_of_their_feed() -> None:
    log, plain = opened()
    log.open_range(2, OTHER.span, close=90)
    options = replace(WITH_MARKERS, resolved_interval_ns=10 * 10**9)
    engine = ReferenceEngine(1, [activation([PLAIN.descriptor], options, output_partitions=1)])
    for closes in range(7, 40):
        plain.heartbeat(closes)
    for record in log.partitions[0]:
        engine.step(0, [record])
    times = _markers(engine.output[OutputPartition("plain", 0)])
    assert len(times) in (4, 5)
    assert all(later.wall - time.wall >= 10 * 10**9 for time, later in pairwise(times))


def test_markers_of_a_resolved_topic_name_the_ends_of_partitions_and_stand_nowhere_else() -> None:
    log, plain = opened()
    for number in range(9):
        plain.apply(PLAIN.put(6.5, number, "v"), close=6)
    plain.heartbeat(8)
    options = replace(WITH_MARKERS, resolved_topic="resolved")
    engine = ReferenceEngine(1, [activation([PLAIN.descriptor], options, output_partitions=3)])
    engine.step(0, log.partitions[0])
    rows = _of_topic(engine, "plain")
    assert sum(map(len, rows.values())) == 10
    assert not any(_markers(records) for records in rows.values())
    marked = _of_topic(engine, "resolved")
    assert {*marked} == {0, 1, 2}
    for partition, (marker,) in marked.items():
        assert marker.value is not None
        ends = {"plain": len(rows.get(partition, ()))}
        assert json.loads(marker.value) == {"offsets": ends, "resolved": at(8).decimal()}


# ---- formats with schemas ----


def test_ids_of_schemas_are_worked_out_from_their_texts() -> None:
    schemas = schemas_for(PLAIN.descriptor, schemed_options())
    ids = {content_id(schema) for schema in (schemas.key, schemas.value) if schema is not None}
    assert len(ids) == 2
    assert all(0 <= each < MAX_SCHEMA_ID for each in ids)


def test_rows_and_markers_have_the_ids_of_their_schemas() -> None:
    log, plain = opened()
    plain.heartbeat(8)
    ids: dict[int, str] = {}

    def schema_id(schema: SubjectSchema) -> int:
        ids[content_id(schema)] = schema.text
        return content_id(schema)

    feed = activation([PLAIN.descriptor], schemed_options(), output_partitions=1)
    engine = ReferenceEngine(1, [feed], schema_id=schema_id)
    engine.step(0, log.partitions[0])
    row, marker = engine.output[OutputPartition("plain", 0)]
    assert row.key is not None
    assert marker.key is None
    framed = {data[:5] for data in (row.key, row.value, marker.value) if data is not None}
    assert framed == {frame_prefix(each) for each in ids}
    assert len(framed) == 3


def test_a_feed_whose_schema_is_refused_fails_and_the_others_go_on() -> None:
    def refuse(schema: SubjectSchema) -> int:
        raise FeedError("the registry takes no such schema")

    log, plain = opened()
    plain.heartbeat(8)
    feeds = [activation([PLAIN.descriptor], schemed_options(), feed_id="odd"), activation([PLAIN.descriptor])]
    engine = ReferenceEngine(1, feeds, schema_id=refuse)
    engine.step(0, log.partitions[0])
    (incident,) = engine.incidents
    assert incident.feed_id == "odd"
    assert "the registry takes no such schema" in incident.cause
    assert _rows(engine) == [at(5)]
    assert engine.high_water(_FEED) == at(8) > engine.high_water(FeedId("odd"))


# ---- partitions ----


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_what_moves_between_partitions_comes_out_in_whatever_order_they_are_read(
    order: Sequence[int],
) -> None:
    log, first, second = chain_log()
    first.heartbeat(9)
    second.heartbeat(9)
    engine = ReferenceEngine(3, [activation([PLAIN.descriptor], output_partitions=1)])
    for number in order:
        engine.step(number, log.partitions[number])
    assert _rows(engine) == [at(1), at(3), at(5), at(7)]
    assert engine.high_water(_FEED) == at(9)
    assert engine.incidents == []

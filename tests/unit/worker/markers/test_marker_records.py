"""Tests what a marker needs besides its timestamp: ids of schemas, or ends of topics."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from tests.feeds import activation
from tests.hand_log import HandTable
from tidegate.changefeed.definition.feed import FeedId, TableName
from tidegate.changefeed.definition.options import FeedOptions
from tidegate.changefeed.encoding.confluent import NewSubjects, SubjectSchema, frame_prefix
from tidegate.changefeed.encoding.record_encoder import MarkerEncoder
from tidegate.client.kafka.transaction import Record
from tidegate.delivery import marker_records as delivered
from tidegate.delivery.marker_records import Place
from tidegate.errors import RetryError, SchemaRejected
from tidegate.hlc import ResolvedTimestamp, Timestamp
from tidegate.worker.markers.marker_records import (
    WorkerMarkersAmongRows,
    WorkerMarkersAside,
    marker_records,
)
from tidegate.worker.process.schema_ids import RegistryWait

_AT = ResolvedTimestamp(Timestamp(1, 2))
_TABLES = [HandTable.of(104, "a").descriptor, HandTable.of(105, "b").descriptor]
_FEED = activation(_TABLES, output_partitions=2)
_A, _B = _FEED.targets
_TARGETS = (_A, replace(_B, partitions=1))


class Ends:
    """Answers with these ends, one set after the other; an error where there is none."""

    def __init__(self, *answers: Mapping[Place, int] | None) -> None:
        self._answers = iter(answers)
        self.asked: list[Sequence[Place]] = []

    def __call__(self, places: Sequence[Place]) -> Mapping[Place, int]:
        self.asked.append(places)
        answer = next(self._answers)
        if answer is None:
            raise RetryError("a broker is away")
        return answer


class Ids:
    """A registry that refuses as often as it is told to, and then gives ids from 7 on."""

    def __init__(self, refusals: int = 0) -> None:
        self._refusals = refusals
        self.asked: list[tuple[str, FeedId]] = []

    def known(self, url: str, schemas: Sequence[SubjectSchema]) -> Mapping[SubjectSchema, int] | None:
        raise AssertionError

    async def ids(
        self, url: str, feed_id: FeedId, schemas: Sequence[SubjectSchema]
    ) -> Mapping[SubjectSchema, int]:
        self.asked.append((url, feed_id))
        if len(self.asked) <= self._refusals:
            raise SchemaRejected("subject a-value: not compatible")
        return {schema: 7 + number for number, schema in enumerate(schemas)}

    async def try_ids(
        self, url: str, feed_id: FeedId, schemas: Sequence[SubjectSchema]
    ) -> Mapping[SubjectSchema, int]:
        raise AssertionError

    def close_unused(self, urls: Collection[str]) -> None:
        raise AssertionError

    async def require_new(self, url: str, subjects: NewSubjects) -> None:
        raise AssertionError

    def waiting(self) -> tuple[RegistryWait, ...]:
        return ()

    def close(self) -> None: ...


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as pool:
        yield pool


@pytest.fixture
def with_schemas(monkeypatch: pytest.MonkeyPatch) -> None:
    """Markers that are the table's name, with a schema each."""

    def compiled(table: TableName, options: FeedOptions) -> MarkerEncoder:
        return MarkerEncoder(lambda _: table.name.encode(), SubjectSchema(f"{table.name}-value", "{}"))

    monkeypatch.setattr(delivered, "compile_marker", compiled)


def ends(a0: int, a1: int, b0: int) -> Mapping[Place, int]:
    return {("a", 0): a0, ("a", 1): a1, ("b", 0): b0}


def test_a_marker_aside_names_the_ends_of_its_partition(threads: ThreadPoolExecutor) -> None:
    asked = Ends(ends(5, 6, 7))
    records = asyncio.run(WorkerMarkersAside("m", _TARGETS, asked, threads).of(_AT))
    assert records == [
        Record("m", 0, None, b'{"offsets":{"a":5,"b":7},"resolved":"1.0000000002"}'),
        Record("m", 1, None, b'{"offsets":{"a":6},"resolved":"1.0000000002"}'),
    ]
    assert asked.asked == [[("a", 0), ("a", 1), ("b", 0)]]  # all of them at once


def test_a_marker_waits_for_ends_that_cannot_be_had(threads: ThreadPoolExecutor) -> None:
    markers = WorkerMarkersAside("m", _TARGETS, Ends(None, ends(5, 6, 7)), threads)
    with pytest.raises(RetryError, match="a broker is away"):
        asyncio.run(markers.of(_AT))
    assert len(asyncio.run(markers.of(_AT))) == 2


def test_no_marker_follows_an_end_that_fell(threads: ThreadPoolExecutor) -> None:
    markers = WorkerMarkersAside("m", _TARGETS, Ends(ends(5, 6, 7), ends(5, 2, 7), ends(9, 9, 9)), threads)
    asyncio.run(markers.of(_AT))
    for _ in range(2):  # also once the new topic has grown above the old one
        with pytest.raises(RetryError, match=r"a\[1\] ended at offset 6 and then at 2: it was deleted"):
            asyncio.run(markers.of(_AT))


def test_markers_among_rows_go_to_every_partition_of_every_topic() -> None:
    ids = Ids()
    markers = WorkerMarkersAmongRows(_FEED.definition, _TARGETS, ids)
    asyncio.run(markers.prepare())
    records = asyncio.run(markers.of(_AT))
    assert [(record.topic, record.partition) for record in records] == [("a", 0), ("a", 1), ("b", 0)]
    assert {record.value for record in records} == {b'{"resolved":"1.0000000002"}'}
    assert ids.asked == []  # JSON has no schemas


@pytest.mark.usefixtures("with_schemas")
def test_markers_with_schemas_are_framed_by_one_question() -> None:
    options = FeedOptions(resolved_interval_ns=0, confluent_schema_registry="http://registry")
    ids = Ids()
    markers = WorkerMarkersAmongRows(replace(_FEED.definition, options=options), _TARGETS, ids)
    ready = [markers.ready]
    asyncio.run(markers.prepare())
    assert [*ready, markers.ready] == [False, True]
    values = [record.value for record in asyncio.run(markers.of(_AT))]
    assert values == [frame_prefix(7) + b"a", frame_prefix(7) + b"a", frame_prefix(8) + b"b"]
    assert ids.asked == [("http://registry", "feed")]


@pytest.mark.usefixtures("with_schemas")
def test_a_schema_that_is_refused_is_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidegate.delivery.back_off._FIRST_S", 0.001)
    ids = Ids(refusals=3)
    markers = WorkerMarkersAmongRows(_FEED.definition, _TARGETS, ids)
    asyncio.run(markers.prepare())
    assert markers.ready
    assert len(ids.asked) == 4


def test_a_resolved_topic_decides_where_markers_go(threads: ThreadPoolExecutor) -> None:
    aside = FeedOptions(resolved_interval_ns=0, resolved_topic="m")
    for options, kind in ((aside, WorkerMarkersAside), (FeedOptions(), WorkerMarkersAmongRows)):
        definition = replace(_FEED.definition, options=options)
        assert isinstance(marker_records(definition, _TARGETS, Ids(), Ends(), threads), kind)

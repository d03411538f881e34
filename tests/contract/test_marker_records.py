"""The records of markers: the same cases for every engine that writes them (step M3 of
docs/protocols/markers.md)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from random import Random, SystemRandom
from typing import Any, Final, Protocol, TypeAlias

import pytest

from tests.feeds import activation
from tests.hand_log import HandTable
from tests.unit.processor.schemed import schemed_options
from tidegate.changefeed.definition.feed import FeedId, FeedState
from tidegate.changefeed.definition.options import FeedOptions
from tidegate.changefeed.encoding.confluent import SubjectSchema, frame_prefix
from tidegate.changefeed.encoding.resolved_topic import OffsetMarkerDecoder
from tidegate.changefeed.lifecycle.job_records import StateRecord
from tidegate.changefeed.lifecycle.jobs import FeedView
from tidegate.client.kafka.transaction import Record
from tidegate.delivery.marker_records import MarkersAside, Place
from tidegate.delivery.producer_ids import MarkerIds
from tidegate.errors import RecordRefused, RetryError, SchemaRejected, TopicGone
from tidegate.hlc import ResolvedTimestamp, Timestamp
from tidegate.processor.batch import ActiveFeed
from tidegate.processor.checkpoint import PartitionProgress
from tidegate.raftlog.entry import Offset
from tidegate.spark.changefeed.feed_markers import FeedMarkers, FeedProducers
from tidegate.spark.changefeed.marker_producers import MarkerProducer, OtherMarkerProducer, OwnMarkerProducer
from tidegate.worker.markers.marker_records import marker_records

_TABLES: Final = [HandTable.of(104, "a").descriptor, HandTable.of(105, "b").descriptor]
_FEED: Final = activation(_TABLES, output_partitions=2)
_TARGETS: Final = (_FEED.targets[0], replace(_FEED.targets[1], partitions=1))
_ASIDE: Final = FeedOptions(resolved_interval_ns=0, resolved_topic="m")
_AMONG: Final = FeedOptions(resolved_interval_ns=0)
_PLACES: Final = [("a", 0), ("a", 1), ("b", 0)]
_FRESH: Final = SystemRandom()

#: Where the topics end at a moment, ``None`` while nobody tells, or the error of a topic that is unknown.
Ends: TypeAlias = Mapping[Place, int] | TopicGone | None
_GONE: Final = TopicGone("Kafka knows no partition 0 of a", "the topic a was deleted")


@dataclass(frozen=True, slots=True)
class Try:
    """One marker that was due: what was written, and the error that kept it from being written, as the engine
    tells it. ``fails`` says that the feed fails with it.
    """

    written: Sequence[Record]
    error: str = ""
    fails: bool = False


class MarkerEngine(Protocol):
    """Tries one marker after the other, at the ends that topics have then."""

    def __call__(self, options: FeedOptions, ends: Sequence[Ends], refusals: int = 0) -> list[Try]:
        """``refusals`` is how often the registry refuses the markers' schemas before it takes them."""


class _Told:
    """Tells the ends of the moment."""

    def __init__(self) -> None:
        self.now: Ends = None

    def __call__(self, places: Sequence[Place]) -> Mapping[Place, int]:
        if self.now is None:
            raise RetryError("a broker is away")
        if isinstance(self.now, TopicGone):
            raise self.now
        return {place: self.now[place] for place in places}


class _Registry:
    """Refuses schemas as often as it is told to, and then gives the id 7 to each."""

    def __init__(self, refusals: int) -> None:
        self._refusals = refusals

    def id_of(self, _: str, schema: SubjectSchema) -> int:
        self._refusals -= 1
        if self._refusals >= 0:
            raise SchemaRejected(f"the subject {schema.subject} is not compatible")
        return 7

    async def ids(self, url: str, _: FeedId, schemas: Sequence[SubjectSchema]) -> Mapping[SubjectSchema, int]:
        return {schema: self.id_of(url, schema) for schema in schemas}


def _workers(options: FeedOptions, ends: Sequence[Ends], refusals: int = 0) -> list[Try]:
    told = _Told()
    definition = replace(_FEED.definition, options=options)
    registry: Any = _Registry(refusals)
    with ThreadPoolExecutor(1) as threads:
        markers = marker_records(definition, _TARGETS, registry, told, threads)

        async def trying() -> list[Try]:
            await markers.prepare()
            return [await one(number) for number in range(len(ends))]

        async def one(number: int) -> Try:
            told.now = ends[number]
            try:
                return Try(await markers.of(_at(number)))
            except (RetryError, RecordRefused) as error:
                return Try([], str(error), isinstance(error, RecordRefused))

        return asyncio.run(trying())


class _Home:
    """The home cluster, to which the driver's producer writes progress and markers."""

    def __init__(self) -> None:
        self.markers: list[Record] = []

    def commit(self, records: Sequence[Record], *, insist: bool = True) -> None:
        self.markers += [record for record in records if record.key is None]


class _Away:
    """A producer on another cluster, which takes whatever it is given."""

    def __init__(self, home: _Home) -> None:
        self._home = home

    def commit_once(self, records: Sequence[Record]) -> None:
        self._home.commit(records)

    def open(self) -> None: ...
    def give_up(self) -> None: ...
    def close(self) -> None: ...


def _elsewhere(home: _Home) -> MarkerProducer:
    away: Any = _Away(home)
    return OtherMarkerProducer("feed", lambda _: away, MarkerIds("before", "now"))


def _settle(writer: MarkerProducer) -> None:
    """Wait for the thread of a producer, which a batch does not wait for behind a marker that failed."""
    if isinstance(writer, OtherMarkerProducer) and writer._work is not None:
        wait([writer._work])
        writer.get_ready()


def _spark(
    options: FeedOptions, ends: Sequence[Ends], refusals: int = 0, *, elsewhere: bool = False
) -> list[Try]:
    told, home = _Told(), _Home()
    definition = replace(_FEED.definition, options=options)
    state = StateRecord(definition.id, definition.epoch, FeedState.RUNNING, Timestamp(1), _TARGETS)
    producer: Any = home
    feed, registry = FeedView(definition, state=state), _Registry(refusals)
    writer = _elsewhere(home) if elsewhere else OwnMarkerProducer(producer)
    with closing(writer):
        markers = FeedMarkers(feed, "jobs", FeedProducers(producer, writer), told, registry.id_of)
        tries = []
        for number, now in enumerate(ends):
            told.now, home.markers = now, []
            markers.apply(_report(number))
            try:
                markers.publish()
                _settle(writer)
            except RecordRefused as error:
                tries.append(Try(home.markers, str(error), fails=True))
            else:
                tries.append(Try(home.markers, markers.held))
        return tries


def _report(number: int) -> PartitionProgress:
    spans = [span for target in _TARGETS for span in target.spans]
    return PartitionProgress(
        0,
        Offset(number),
        (ActiveFeed(_FEED.feed_id, _FEED.definition.epoch),),
        [span.start for span in spans],
        [span.end for span in spans],
        [_at(number)] * len(spans),
    )


def _at(number: int) -> ResolvedTimestamp:
    return ResolvedTimestamp(Timestamp(1_000 + number))


@pytest.fixture(
    params=[_workers, _spark, partial(_spark, elsewhere=True)], ids=["workers", "spark", "spark-elsewhere"]
)
def engine(request: pytest.FixtureRequest) -> MarkerEngine:
    chosen: MarkerEngine = request.param
    return chosen


def _ends(*numbers: int) -> Mapping[Place, int]:
    return dict(zip(_PLACES, numbers, strict=True))


def test_markers_among_rows_go_to_every_partition_of_every_topic(engine: MarkerEngine) -> None:
    (done,) = engine(_AMONG, [None])
    value = b'{"resolved":"1000.0000000000"}'
    assert done.written == [Record(topic, number, None, value) for topic, number in _PLACES]


def test_a_marker_aside_names_the_ends_of_its_partition(engine: MarkerEngine) -> None:
    (done,) = engine(_ASIDE, [_ends(5, 6, 7)])
    assert done.written == [
        Record("m", 0, None, b'{"offsets":{"a":5,"b":7},"resolved":"1000.0000000000"}'),
        Record("m", 1, None, b'{"offsets":{"a":6},"resolved":"1000.0000000000"}'),
    ]


def test_a_marker_waits_for_ends_that_cannot_be_had(
    engine: MarkerEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And nothing else does: no other feed's marker, and no row."""
    monkeypatch.setattr("tidegate.delivery.back_off._FIRST_S", 0.0)
    waits, done = engine(_ASIDE, [None, _ends(5, 6, 7)])
    assert not waits.written
    assert "a broker is away" in waits.error
    assert (len(done.written), done.error) == (2, "")


def test_a_backfill_waits_for_what_its_marker_needs() -> None:
    """It has no later look at its feed: whoever publishes tries again."""
    told = _Told()
    definition = replace(_FEED.definition, options=_ASIDE)
    state = StateRecord(definition.id, definition.epoch, FeedState.RUNNING, Timestamp(1), _TARGETS)
    home: Any = _Home()
    producers = FeedProducers(home, OwnMarkerProducer(home))
    feed = FeedView(definition, state=state)
    markers = FeedMarkers(feed, "jobs", producers, told, _Registry(0).id_of, insists=True)
    markers.apply(_report(0))
    with pytest.raises(RetryError, match="a broker is away"):
        markers.publish()
    told.now = _ends(5, 6, 7)
    markers.publish()
    assert len(home.markers) == 2


def test_no_marker_follows_an_end_that_fell(engine: MarkerEngine) -> None:
    """Also once the topic that was made anew has grown above the old one."""
    first, *others = engine(_ASIDE, [_ends(5, 6, 7), _ends(5, 2, 7), _ends(9, 9, 9), None])
    assert (bool(first.written), first.error) == (True, "")
    assert [done.written for done in others] == [[]] * 3
    for done in others:
        assert "a[1] ended at offset 6 and then at 2: it was deleted and created again" in done.error


def test_a_topic_that_stays_unknown_fails_its_feed(
    engine: MarkerEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a row nobody else notices that the topic was deleted."""
    monkeypatch.setattr("tidegate.delivery.back_off._FIRST_S", 0.0)
    monkeypatch.setattr("tidegate.delivery.marker_records.UNKNOWN_FOR_S", 1e-9)
    first, waits, fails = engine(_ASIDE, [_ends(5, 6, 7), _GONE, _GONE])
    assert (len(first.written), waits.written, fails.written) == (2, [], [])
    assert ("Kafka knows no partition 0 of a" in waits.error, waits.fails) == (True, False)
    assert (fails.error, fails.fails) == ("the topic a was deleted", True)


@pytest.mark.parametrize("between", [None, _ends(5, 6, 7)])
def test_a_topic_that_is_unknown_now_and_then_fails_nothing(
    engine: MarkerEngine, between: Ends, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be new, or a broker that comes back may not have heard of it yet."""
    monkeypatch.setattr("tidegate.delivery.back_off._FIRST_S", 0.0)
    monkeypatch.setattr("tidegate.delivery.marker_records.UNKNOWN_FOR_S", 1e-9)
    *others, last = engine(_ASIDE, [*[_GONE, between] * 3, _ends(8, 8, 8)])
    assert not any(done.fails for done in others)
    assert (len(last.written), last.error) == (2, "")


def test_a_topic_is_unknown_for_a_while_before_its_feed_fails(
    engine: MarkerEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidegate.delivery.back_off._FIRST_S", 0.0)
    *others, last = engine(_ASIDE, [*[_GONE] * 5, _ends(5, 6, 7)])
    assert not any(done.fails for done in others)
    assert len(last.written) == 2


def test_markers_wait_for_a_schema_that_is_refused_and_their_feed_does_not_fail(
    engine: MarkerEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The registry took the schema when the feed began: somebody has changed the subject since, and may
    change it back."""
    monkeypatch.setattr("tidegate.delivery.back_off._FIRST_S", 0.0)
    *_, last = engine(schemed_options(), [None] * 3, refusals=2)
    assert len(last.written) == len(_PLACES)
    assert all((record.value or b"").startswith(frame_prefix(7)) for record in last.written)


def _history(seed: int) -> list[Ends]:
    """Ends that grow; that nobody tells at times; and that fall, seldom."""
    rng, now, history = Random(seed), dict.fromkeys(_PLACES, 5), list[Ends]()
    for _ in range(rng.randint(1, 12)):
        now = {place: end + rng.randint(0, 3) for place, end in now.items()}
        if rng.random() < 0.15:
            place = rng.choice(_PLACES)
            now = now | {place: rng.randint(0, now[place])}
        history.append(None if rng.random() < 0.2 else now)
    return history


def _broken(engine: MarkerEngine, seed: int) -> str:
    """Return what is wrong with the markers of a history: one names a lower end than one before it."""
    named: dict[Place, int] = {}
    for done in engine(_ASIDE, _history(seed)):
        for record in done.written:
            offsets = OffsetMarkerDecoder().decode(None, record.value).offsets
            for topic, end in offsets.items():
                place = (topic, record.partition)
                if end < named.get(place, 0):
                    return f"{place} ended at {named[place]}, and a marker names {end} now: seed {seed}"
                named[place] = end
    return ""


def test_whatever_becomes_of_the_topics_no_marker_names_a_lower_end_than_one_before(
    engine: MarkerEngine,
) -> None:
    for seed in (*range(50), _FRESH.getrandbits(32)):
        assert not _broken(engine, seed)


def test_an_engine_that_does_not_look_at_ends_is_found(
    engine: MarkerEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MarkersAside, "_refuse_fallen", lambda *_: None)
    assert any(_broken(engine, seed) for seed in range(50))

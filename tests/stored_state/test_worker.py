"""A worker goes on with what a worker of an earlier version has stored (the README beside this file)."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from tests.contract.comparison import rows_by_key
from tests.simulation.judge import FeedTroubles, read_output, violations
from tests.stored_state.archives import unpack
from tests.stored_state.copies import renew_copies
from tests.stored_state.stored import HOME, PARTITIONS, TOPICS, Place, stored
from tests.stored_state.taken_up import TakenUp
from tests.stored_state.uninterrupted import uninterrupted
from tests.stored_state.write import facts_of
from tidegate.changefeed.definition.feed import FeedState
from tidegate.changefeed.encoding.record import RowRecord
from tidegate.changefeed.lifecycle.control import Activate, read_ack, read_control
from tidegate.changefeed.lifecycle.job_records import read_job_record
from tidegate.changefeed.lifecycle.jobs import FeedView
from tidegate.hlc import ZERO, Timestamp, parse_decimal
from tidegate.processor.checkpoint import read_report_record
from tidegate.processor.config import ProcessorConfig
from tidegate.processor.processor import PartitionProcessor
from tidegate.processor.reference import Emitted, OutputPartition
from tidegate.processor.state.exchange_codec import read_exchange_record
from tidegate.raftlog.request import Scan, decode_request
from tidegate.worker.state.store import OpenStore

_FEEDS: Final = ("feed0", "feed1", "feed2", "feed3")
#: The one whose sink had stood still for long, so that it lagged.
_LAGGING: Final = "feed2"
_NUMBERS: Final = pytest.mark.parametrize("partition", range(PARTITIONS))


@pytest.fixture(scope="module", params=["changelogs", "local copies"])
def taken_up(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> TakenUp:
    """A worker that has gone on to the end, from the changelogs alone or with the copies of its disk."""
    home = tmp_path_factory.mktemp("home")
    copies = request.param == "local copies"
    run = TakenUp(stored(), home, _copies(home / TOPICS.app_id) if copies else None)
    run.run()
    return run


def _copies(home: Path) -> OpenStore:
    """Put the local copies where the worker looks for them."""
    unpack(stored().copies, home)
    return renew_copies(home, range(PARTITIONS))


def _feed(run: TakenUp, feed_id: str) -> FeedView:
    (feed,) = (feed for feed in run.feeds() if feed.definition and feed.definition.id == feed_id)
    return feed


def _activation(feed: FeedView) -> Activate:
    state = feed.current_state
    assert feed.definition is not None
    assert state is not None
    assert state.start is not None
    return Activate(feed.definition, state.start, state.targets)


def _output(run: TakenUp, feed: FeedView) -> Mapping[OutputPartition, list[Emitted]]:
    found: dict[OutputPartition, list[Emitted]] = {}
    for record in read_output(run.broker_of(feed), run.registry, feed).records:
        headers = tuple((name, value or b"") for name, value in record.headers)
        emitted = Emitted(record.key, record.value, record.timestamp_ms, headers)
        found.setdefault(OutputPartition(record.topic, record.partition), []).append(emitted)
    return found


# ---- what the stored bytes mean


@_NUMBERS
def test_the_state_is_taken_for_what_the_earlier_version_took_it_for(partition: int) -> None:
    """Positions, ranges with their spans and resolved timestamps, holes, open transactions, gaps of feeds."""
    rows = [(table, key, value) for (table, key), value in stored().rows(partition).items()]
    processor = PartitionProcessor.restore(partition, PARTITIONS, ProcessorConfig(detachable=True), rows)
    assert json.loads(json.dumps(facts_of(processor))) == stored().said(partition)


def test_the_state_has_what_it_was_made_for() -> None:
    """Else the other tests would be about less than they say."""
    said = [stored().said(partition) for partition in range(PARTITIONS)]
    assert sum(each["open"][0] for each in said) > 1, "open transactions"
    assert any(each["quarantined"] for each in said)
    assert any(start < stop for start, stop in (each["again"] for each in said)), "entries of parked ranges"
    assert {feed for each in said for feed, *_ in each["gaps"]} == {_LAGGING, "feed3"}
    assert [] in [complete for each in said for _, _, complete in each["gaps"]], "an initial scan"
    assert any(_waiting_hand_offs(partition) for partition in range(PARTITIONS))


def _waiting_hand_offs(partition: int) -> int:
    """Messages of the hand-off topic that the partition has not taken up."""
    _, _, next_hand_off = stored().said(partition)["offsets"]
    records = stored().records[Place(HOME, TOPICS.hand_offs, partition)]
    return sum(record.offset >= next_hand_off for record in records)


@_NUMBERS
def test_the_local_copy_has_the_rows_and_the_positions_of_the_changelogs(
    partition: int, tmp_path: Path
) -> None:
    store = _copies(tmp_path)(tmp_path / f"partition-{partition}")
    assert {(table, key): value for table, key, value in store.rows()} == stored().rows(partition)
    ids = {topic.name: topic.id for topic in stored().topics}
    positions = store.positions()
    for table, name in TOPICS.changelogs().items():
        topic_id, offset = positions[table]
        assert topic_id == ids[name]
        assert offset > stored().records[Place(HOME, name, partition)][-1].offset
    store.close()


_READERS: Final[Mapping[str, Callable[[bytes | None, bytes], Any]]] = {
    TOPICS.jobs: read_job_record,
    TOPICS.control: lambda _, value: read_control(value),
    TOPICS.control_acks: lambda _, value: read_ack(value),
    TOPICS.checkpoints: partial(read_report_record, partitions=PARTITIONS),
    TOPICS.hand_offs: read_exchange_record,
    TOPICS.requests: lambda _, value: decode_request(value),
}


@pytest.mark.parametrize("topic", _READERS)
def test_every_message_of_an_internal_topic_is_read(topic: str) -> None:
    found = [
        record for place, records in stored().records.items() if place.topic == topic for record in records
    ]
    assert found
    for record in found:
        assert record.value is not None
        assert _READERS[topic](record.key, record.value) is not None


# ---- a worker that goes on


def test_rows_and_markers_are_those_of_the_true_history(taken_up: TakenUp) -> None:
    feeds = taken_up.feeds()
    assert [feed.definition and feed.definition.id for feed in feeds] == [*_FEEDS]
    for feed in feeds:
        found = violations(
            taken_up.broker_of(feed),
            taken_up.registry,
            feed,
            stored().history,
            stored().descriptors,
            FeedTroubles(None, dropped=False, mutations=()),
        )
        assert list(found) == []
        assert feed.status is FeedState.RUNNING


def test_rows_are_those_of_an_uninterrupted_run(taken_up: TakenUp) -> None:
    feeds = [_activation(feed) for feed in taken_up.feeds()]
    expected = uninterrupted(stored(), feeds, taken_up.registry.id_of)
    output = {
        place: records for feed in taken_up.feeds() for place, records in _output(taken_up, feed).items()
    }
    assert rows_by_key(output) == expected


def test_no_partition_begins_anew(taken_up: TakenUp) -> None:
    restored = [line for line in taken_up.lines if line["event"] == "partition restored"]
    assert {line["partition"]: line["next_offset"] for line in restored} == {
        partition: stored().said(partition)["offsets"][0] for partition in range(PARTITIONS)
    }
    assert len(restored) == PARTITIONS
    read = sum(line["changelog_records"] for line in restored)
    assert read == (0 if taken_up.has_copies else _changelog_records())


def _changelog_records() -> int:
    names = set(TOPICS.changelogs().values())
    return sum(len(records) for place, records in stored().records.items() if place.topic in names)


def test_frontiers_go_on_from_the_stored_high_waters(taken_up: TakenUp) -> None:
    begun = {
        line["feed"]: line["high_water"] for line in taken_up.lines if line["event"] == "frontier begins"
    }
    view = stored().jobs()
    had = {feed_id: feed.progress for feed_id, feed in view.feeds()}
    assert {feed: parse_decimal(at) for feed, at in begun.items()} == {
        feed_id: ZERO if progress is None else progress.high_water for feed_id, progress in had.items()
    }
    assert begun[_LAGGING] < begun["feed0"]


def test_a_lagging_feed_goes_on_from_its_position(taken_up: TakenUp) -> None:
    """No scan goes further back than the feed had come. Only another feed's initial scan has no lower end."""
    (progress,) = (feed.progress for feed_id, feed in stored().jobs().feeds() if feed_id == _LAGGING)
    assert progress is not None
    scans = [request for request in taken_up.requests if isinstance(request, Scan)]
    assert min(scan.after for scan in scans if scan.after is not None) >= progress.high_water
    assert not [scan for scan in scans if scan.after is None and scan.all_versions]
    assert _rows_of(taken_up, _LAGGING)
    assert min(_rows_of(taken_up, _LAGGING)) > progress.high_water


def _rows_of(run: TakenUp, feed_id: str) -> list[Timestamp]:
    """The timestamps of the rows that the worker has written."""
    feed = _feed(run, feed_id)
    assert feed.definition is not None
    cluster = feed.definition.sink_uri.removeprefix("kafka://")
    output, found = read_output(run.broker_of(feed), run.registry, feed), []
    for record in output.records:
        decoded = output.decode(record)
        if (
            isinstance(decoded, RowRecord)
            and record.offset >= stored().ends[Place(cluster, record.topic, record.partition)]
        ):
            assert decoded.updated is not None
            found.append(decoded.updated)
    return found

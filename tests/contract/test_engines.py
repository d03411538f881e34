"""Every engine, every case: the same records in the same places, and markers that are true."""

from __future__ import annotations

from itertools import pairwise

import pytest

from tests.contract.case import BuiltCase
from tests.contract.catalogue import CASES, built
from tests.contract.comparison import (
    decoder_of_markers,
    markers,
    records_at,
    rows_by_key,
    unseen_rows_below_markers,
)
from tests.contract.conftest import Outputs
from tests.contract.engine import Output
from tidegate.changefeed.encoding.record import MarkerRecord
from tidegate.changefeed.lifecycle.control import Activate
from tidegate.hlc import Timestamp
from tidegate.processor.reference import Emitted, OutputPartition

every_case = pytest.mark.parametrize("name", [case.name for case in CASES])


def _places(feed: Activate) -> list[OutputPartition]:
    return [OutputPartition(target.topic, n) for target in feed.targets for n in range(target.partitions)]


def _partitions(case: BuiltCase, output: Output) -> list[tuple[Activate, list[Emitted]]]:
    """The records of every partition of every topic of rows, none left out."""
    return [(feed, records_at(feed, output, place)) for feed in case.feeds for place in _places(feed)]


@every_case
def test_the_same_rows_are_on_the_same_partitions_in_the_same_order_per_key(
    name: str, outputs: Outputs
) -> None:
    assert rows_by_key(outputs(name)) == rows_by_key(built(name).reference.output)


@every_case
def test_no_unseen_row_follows_a_marker_that_covers_it(name: str, outputs: Outputs) -> None:
    for feed, records in _partitions(built(name), outputs(name)):
        assert unseen_rows_below_markers(feed, records) == []


@every_case
def test_the_last_marker_is_the_feeds_high_water_on_every_partition(name: str, outputs: Outputs) -> None:
    case = built(name)
    for feed, records in _partitions(case, outputs(name)):
        if feed.definition.options.resolved_interval_ns == 0:
            high_water = case.reference.high_water(feed.feed_id)
            expected = [high_water] if high_water > feed.start else []
            assert list(markers(feed, records))[-1:] == expected


@every_case
def test_markers_never_fall_and_keep_their_distance(name: str, outputs: Outputs) -> None:
    case = built(name)
    for feed, records in _partitions(case, outputs(name)):
        found: list[Timestamp] = list(markers(feed, records))
        assert found == sorted(found)
        assert all(feed.start < marker <= case.reference.high_water(feed.feed_id) for marker in found)
        interval_ns = feed.definition.options.resolved_interval_ns
        if interval_ns is None:
            assert found == []
        else:
            distinct = sorted(set(found))
            assert all(after.wall - before.wall >= interval_ns for before, after in pairwise(distinct))


@every_case
def test_markers_with_a_topic_of_their_own_stand_there_alone_and_name_every_end(
    name: str, outputs: Outputs
) -> None:
    case, output = built(name), outputs(name)
    for feed in case.feeds:
        aside = feed.definition.options.resolved_topic
        if not aside:
            continue
        assert all(record.key for place in _places(feed) for record in output.get(place, ()))
        found = {place for place in output if place.topic == aside}
        assert {place.partition for place in found} == set(range(max(t.partitions for t in feed.targets)))
        for place in found:
            named = {target.topic for target in feed.targets if target.partitions > place.partition}
            for record in output[place]:
                marker = decoder_of_markers(feed).decode(record.key, record.value)
                assert isinstance(marker, MarkerRecord)
                assert set(marker.offsets) == named


@every_case
def test_provenance_names_a_command_of_the_log(name: str, outputs: Outputs) -> None:
    first, last = built(name).log, outputs(name)
    ids = {int.from_bytes(record.key or b"", "big") for records in first for record in records}
    for records in last.values():
        for record in records:
            if record.key is not None:
                (source,) = [value for header, value in record.headers if header == "tidegate-source"]
                assert int(source.split(b"/")[0]) in ids

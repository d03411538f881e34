"""An answer of the kernel is looked at as a whole before any record of it is believed."""

from __future__ import annotations

from typing import Any, Final

import pytest

from tidegate.changefeed.encoding.confluent import RecordSchemas, SubjectSchema
from tidegate.errors import StateError
from tidegate.kernel.instance import RawOutput
from tidegate.kernel.message import read_output
from tidegate.processor.batch import OutputRecord, SchemedTopic, UnframedRecord
from tidegate.processor.feeds.row_kernel import Taken
from tidegate.processor.written_records import PLACES, LaneOf, WrittenRecords

_LANES: Final = (LaneOf(0, "t", None, (), None), LaneOf(1, "u", None, (), None))


def _nothing() -> Taken:
    return Taken({}, [], {})


def _answer(*places: tuple[int, int]) -> RawOutput:
    """A record with the key ``k`` of each version and lane."""
    records = b"".join(
        PLACES.pack(number, lane, end, end, end, 0) for end, (number, lane) in enumerate(places, 1)
    )
    return RawOutput(records, b"k" * len(places), b"", b"")


def test_each_feed_gets_its_records_with_the_places_of_their_versions() -> None:
    taken = _nothing()
    read_output(_answer((0, 0), (0, 1), (1, 0)), [1_000_000, 2_000_000], 0, _LANES, taken)
    read_output(_answer((0, 1)), [3_000_000], 2, _LANES, taken)
    first = [OutputRecord("t", 0, b"k", None, 1, []), OutputRecord("t", 0, b"k", None, 2, [])]
    other = [OutputRecord("u", 0, b"k", None, 1, []), OutputRecord("u", 0, b"k", None, 3, [])]
    assert [list(taken.feeds[feed].records) for feed in (0, 1)] == [first, other]
    assert [taken.feeds[feed].numbers for feed in (0, 1)] == [[0, 1], [0, 2]]
    assert all(isinstance(feed.records, WrittenRecords) for feed in taken.feeds.values())


def test_records_of_a_feed_with_schemas_go_out_without_their_ids() -> None:
    to = SchemedTopic("u", 3, RecordSchemas(SubjectSchema("u-key", "{}"), SubjectSchema("u-value", "{}")))
    lanes = (_LANES[0], LaneOf(1, "u", to, (("extra", b"x"),), b""))
    taken = _nothing()
    read_output(_answer((0, 1), (0, 0), (1, 1)), [1_000_000, 2_000_000], 0, lanes, taken)
    read_output(_answer((0, 1)), [3_000_000], 2, lanes, taken)
    assert taken.feeds[1].unframed == [
        UnframedRecord(to, b"k", b"", at, [("extra", b"x")]) for at in (1, 2, 3)
    ]
    assert (list(taken.feeds[1].records), taken.feeds[1].numbers) == ([], [0, 1, 2])
    assert (len(taken.feeds[0].records), taken.feeds[0].unframed) == (1, [])


class _CountedLanes(list[LaneOf]):
    """Lanes that count how often they are looked up."""

    looks = 0

    def __getitem__(self, at: Any) -> Any:
        self.looks += 1
        return super().__getitem__(at)


def test_a_record_is_looked_at_as_often_however_many_feeds_have_schemas() -> None:
    feeds = 100
    to = SchemedTopic("u", 3, RecordSchemas(SubjectSchema("u-key", "{}"), SubjectSchema("u-value", "{}")))
    lanes = _CountedLanes(LaneOf(feed, "u", to, (), b"") for feed in range(feeds))
    taken = _nothing()
    read_output(_answer(*((0, lane) for lane in range(feeds))), [1_000_000], 0, lanes, taken)
    assert [len(each.unframed) for each in taken.feeds.values()] == [1] * feeds
    assert lanes.looks <= 2 * feeds


def test_a_version_that_the_batch_does_not_have_is_an_error_before_anybody_asks_for_a_record() -> None:
    with pytest.raises(StateError, match="outside its batch"):
        read_output(_answer((0, 0), (2, 0)), [1, 2], 0, _LANES, _nothing())


def test_so_is_a_lane_that_the_plan_does_not_have() -> None:
    with pytest.raises(IndexError):
        read_output(_answer((0, 2)), [1], 0, _LANES, _nothing())

"""A version that comes again is a repeat if it is an exact copy."""

from __future__ import annotations

import pytest

from tests.unit.subscribe.gate.records import ONE, row
from tidegate.changefeed.definition.options import Envelope
from tidegate.changefeed.encoding.json_decoder import JsonDecoder
from tidegate.errors import RepeatDiffers
from tidegate.hlc import Timestamp
from tidegate.subscribe.gate.feed_record import FeedRecord, RecordColumns
from tidegate.subscribe.gate.row_chunk import RowChunk
from tidegate.subscribe.gate.seen_versions import SeenVersions
from tidegate.subscribe.gate.version_reader import VersionReader


def test_a_copy_is_a_repeat_and_another_version_is_not() -> None:
    seen = SeenVersions(ONE)
    assert not seen.is_repeat(row(0, 1, 5), Timestamp(5))
    assert not seen.is_repeat(row(1, 1, 6), Timestamp(6))
    assert not seen.is_repeat(row(2, 2, 5), Timestamp(5))
    assert seen.is_repeat(row(3, 1, 5), Timestamp(5))


def _chunk(*records: FeedRecord) -> RowChunk:
    chunk = VersionReader({"t": JsonDecoder(Envelope.WRAPPED)}).chunk(ONE, RecordColumns.of(records))
    assert chunk is not None
    return chunk


def test_many_versions_are_seen_at_once_if_all_of_them_are_new() -> None:
    seen = SeenVersions(ONE)
    assert seen.are_new(_chunk(row(0, 1, 5), row(1, 1, 6), row(2, 2, 5)))
    assert seen.is_repeat(row(3, 1, 6), Timestamp(6))
    assert not seen.are_new(_chunk(row(4, 3, 7), row(5, 1, 5))), "one was seen"
    assert not seen.are_new(_chunk(row(6, 4, 7), row(7, 4, 7))), "one is there twice"
    assert not seen.is_repeat(row(8, 3, 7), Timestamp(7)), "nothing was noted of those"
    assert not seen.is_repeat(row(9, 4, 7), Timestamp(7))
    with pytest.raises(RepeatDiffers, match="offset 10"):
        seen.is_repeat(row(10, 2, 5, value=9), Timestamp(5))


def test_a_version_with_another_value_is_refused_with_its_place() -> None:
    seen = SeenVersions(ONE)
    seen.is_repeat(row(0, 1, 5), Timestamp(5))
    with pytest.raises(RepeatDiffers, match=r"offset 7 of t\[0\]"):
        seen.is_repeat(row(7, 1, 5, value=9), Timestamp(5))

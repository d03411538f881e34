"""Markers with offsets have exact bytes, read back, and nothing else is taken for one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.feeds import activation
from tests.hand_log import HandTable
from tidegate.changefeed.definition.feed import FeedTarget
from tidegate.changefeed.encoding.record import MarkerRecord
from tidegate.changefeed.encoding.resolved_topic import (
    OffsetMarkerDecoder,
    marker_partitions,
    offset_marker_value,
    topics_with,
)
from tidegate.errors import MalformedRecord
from tidegate.hlc import MAX_LOGICAL, ZERO_RESOLVED, ResolvedTimestamp, Timestamp

_AT = ResolvedTimestamp(Timestamp(1, 2))
_TIMESTAMPS = st.builds(Timestamp, st.integers(1, 2**63 - 1), st.integers(0, MAX_LOGICAL))


def targets(**partitions: int) -> tuple[FeedTarget, ...]:
    return tuple(
        activation([HandTable.of(104, topic).descriptor], output_partitions=count).targets[0]
        for topic, count in partitions.items()
    )


def test_a_marker_names_its_offsets_without_spaces_in_the_order_of_names() -> None:
    value = offset_marker_value(_AT, {"orders": 1234, "lines": 0})
    assert value == b'{"offsets":{"lines":0,"orders":1234},"resolved":"1.0000000002"}'


def test_a_marker_is_never_zero() -> None:
    with pytest.raises(ValueError, match="nothing is resolved"):
        offset_marker_value(ZERO_RESOLVED, {"orders": 1})


@given(_TIMESTAMPS, st.dictionaries(st.text("abc._-", min_size=1), st.integers(0, 2**63 - 1)))
def test_markers_read_back(resolved: Timestamp, offsets: dict[str, int]) -> None:
    value = offset_marker_value(ResolvedTimestamp(resolved), offsets)
    assert OffsetMarkerDecoder().decode(None, value) == MarkerRecord(ResolvedTimestamp(resolved), offsets)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"[1]", b'{"offsets":{},"resolved":"1.0000000002"}'),
        (None, None),
        (None, b""),
        (None, b"\xff"),
        (None, b"[]"),
        (None, b'{"resolved":"1.0000000002"}'),
        (None, b'{"offsets":{}}'),
        (None, b'{"offsets":[],"resolved":"1.0000000002"}'),
        (None, b'{"offsets":{"a":-1},"resolved":"1.0000000002"}'),
        (None, b'{"offsets":{"a":1.5},"resolved":"1.0000000002"}'),
        (None, b'{"offsets":{"a":true},"resolved":"1.0000000002"}'),
        (None, b'{"offsets":{},"resolved":7}'),
        (None, b"[" * 100_000),
    ],
)
def test_what_is_no_marker_with_offsets_is_refused(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(MalformedRecord, match="not a marker with offsets"):
        OffsetMarkerDecoder().decode(key, value)


def test_there_are_as_many_partitions_as_the_greatest_topic_has() -> None:
    assert marker_partitions(targets(a=2, b=5)) == 5


def test_a_marker_names_the_topics_that_have_its_partition() -> None:
    assert topics_with(1, targets(a=2, b=5)) == ["a", "b"]
    assert topics_with(2, targets(a=2, b=5)) == ["b"]

"""What an output is to the feeds of its range, and the memory that an input is charged."""

from __future__ import annotations

import pytest

from tests.unit.rangefeed.feeding import RANGE, T1, at, checkpoint, closed, intent
from tidegate.raftlog.entry import CommitIntent, DeleteRange, UpdateIntent, WriteValue
from tidegate.rangefeed.event import EVENT_BYTES, DeleteRangeEvent, SSTableEvent, ValueEvent
from tidegate.rangefeed.range_outputs import Init, RangeInput, RangeOutput, routed_output, size_bytes
from tidegate.rangefeed.registration import FeedRequest, Registration
from tidegate.rangefeed.routing import Routed
from tidegate.spans import Span

PART, POINT = Span(b"c", b"f"), Span(b"k", b"k\0")
FILE = SSTableEvent(PART, at(5), b"versions")
WRITE = WriteValue(b"k", at(5), b"new", b"before", True, 3)
COMMIT = CommitIntent(T1, b"k", at(5), b"new", b"before", True, 3)


@pytest.mark.parametrize(
    ("output", "routed"),
    [
        (WRITE, Routed(POINT, ValueEvent(b"k", at(5), b"new", b"before"), True, 3)),
        (COMMIT, Routed(POINT, ValueEvent(b"k", at(5), b"new", b"before"), True, 3)),
        (WriteValue(b"k", at(5), None), Routed(POINT, ValueEvent(b"k", at(5), b""))),
        (DeleteRange(*PART, at(5)), Routed(PART, DeleteRangeEvent(PART, at(5)))),
        (FILE, Routed(PART, FILE)),
        (checkpoint(RANGE, 5), Routed(RANGE, checkpoint(RANGE, 5))),
    ],
)
def test_an_output_is_an_event_of_the_keys_that_it_touches(output: RangeOutput, routed: Routed) -> None:
    assert routed_output(output) == routed


@pytest.mark.parametrize(
    ("taken", "size"),
    [
        ((), EVENT_BYTES),
        ((WRITE,), 2 * EVENT_BYTES + len(b"k" + b"new" + b"before")),
        ((COMMIT,), 2 * EVENT_BYTES + len(b"k" + b"new" + b"before")),
        ((WriteValue(b"k", at(5), None),), 2 * EVENT_BYTES + len(b"k")),
        ((intent(T1, 5), UpdateIntent(T1, at(6)), DeleteRange(*PART, at(5))), 4 * EVENT_BYTES),
        (FILE, EVENT_BYTES + len(b"versions")),
        (closed(5), EVENT_BYTES),
        (Init((intent(T1, 5),)), EVENT_BYTES),
        (Registration(FeedRequest(RANGE)), EVENT_BYTES),
    ],
)
def test_an_input_is_charged_with_its_events_keys_and_values(taken: RangeInput, size: int) -> None:
    assert size_bytes(taken) == size

"""The gate over random histories: markers among the rows and on a topic of their own, and resumes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.subscribe.consumer_run import DECODERS
from tests.unit.subscribe.gate.memory_spill import MemorySpill
from tests.unit.subscribe.topic_histories import TopicHistory, reread, topic_histories
from tidegate.changefeed.encoding.record import MarkerRecord
from tidegate.changefeed.encoding.resolved_topic import offset_marker_value
from tidegate.hlc import ZERO, ResolvedTimestamp, Timestamp
from tidegate.subscribe.gate.feed_record import FeedPartition, FeedRecord
from tidegate.subscribe.gate.row_gate import GateOpening, GateStart, RowGate
from tidegate.subscribe.gate.side_markers import SideMarkers
from tidegate.subscribe.gate.spilled_rows import Spill
from tidegate.subscribe.updates.frontier import resume_as_of

SIDE = "resolved"
Identities = set[tuple[Timestamp, int]]


def with_side_markers(history: TopicHistory) -> TopicHistory:
    """The same history with its markers on a topic of their own: each names its old offset."""
    ends = dict.fromkeys(history.partitions, 0)
    records = []
    for place, record in history.records:
        if record.key is not None:
            records.append((place, record))
            continue
        marker = DECODERS[place.topic].decode(None, record.value)
        assert isinstance(marker, MarkerRecord)
        if not marker.resolved.wall:
            continue  # no feed says that on a topic of markers
        side = FeedPartition(SIDE, place.partition)
        value = offset_marker_value(ResolvedTimestamp(marker.resolved), {place.topic: record.offset})
        records.append((side, FeedRecord(ends.setdefault(side, 0), None, value)))
        ends[side] += 1
    sides = {place for place, _ in records if place.topic == SIDE}
    return replace(history, partitions=(*history.partitions, *sorted(sides)), records=tuple(records))


class _Reader:
    """A gate with its side markers, if there are any, from some offsets on."""

    def __init__(self, history: TopicHistory, start: GateStart, budget_bytes: int | None) -> None:
        rows = [place for place in history.partitions if place.topic != SIDE]
        spill = None if budget_bytes is None else Spill(MemorySpill(), budget_bytes, least_opening_bytes=0)
        self._gate = RowGate(DECODERS, rows, start, spill=spill)
        self._side = SideMarkers(SIDE, rows, self._gate)
        self._rows = {place: [r.offset for p, r in history.records if p == place] for place in rows}

    def read(self, place: FeedPartition, record: FeedRecord) -> None:
        if place.topic == SIDE:
            self._side.add_record(place, record)
        else:
            self._gate.add_record(place, record)
            # The consumer's position: the next record's offset, for those between have no record.
            behind = [offset for offset in self._rows[place] if offset > record.offset]
            self._side.reach(place, min(behind, default=record.offset + 100))

    def open(self) -> GateOpening | None:
        return self._gate.open()

    def tell_positions(self) -> None:
        """A consumer learns at once where the first record is that it will read, or that there is none."""
        for place, offsets in self._rows.items():
            ahead = [offset for offset in offsets if offset >= self._gate.next_offset(place)]
            self._side.reach(place, min(ahead, default=1_000))

    def offsets(self) -> dict[FeedPartition, int]:
        return {**self._gate.offsets(), **self._side.offsets()}


def openings(
    history: TopicHistory, crashes: list[int], budget_bytes: int | None = None
) -> Iterator[GateOpening]:
    """Yield what the gate lets through, with a resume from its offsets after each of these numbers of
    records.

    Rows beyond the budget wait outside of memory.
    """
    start, position = GateStart(), 0
    for crash in (*sorted(at for at in crashes if at < len(history.records)), len(history.records)):
        reader = _Reader(history, start, budget_bytes)
        reader.tell_positions()
        again = list(reread(history, position, dict(start.offsets)))
        for place, record in again[: len(again) - (len(history.records) - crash)]:
            reader.read(place, record)
            while (opening := reader.open()) is not None:
                start = GateStart(resume_as_of(opening.frontier), reader.offsets())
                yield opening
        position = crash


@pytest.mark.parametrize("aside", [False, True], ids=["among-rows", "aside"])
@given(
    history=topic_histories(),
    crashes=st.lists(st.integers(0, 60), max_size=3),
    budget_bytes=st.none() | st.integers(0, 2_000),
)
def test_each_version_is_let_through_once_and_in_its_time(
    aside: bool, history: TopicHistory, crashes: list[int], budget_bytes: int | None
) -> None:
    seen: Identities = set()
    last = ZERO
    for opening in openings(with_side_markers(history) if aside else history, crashes, budget_bytes):
        new = {(version.updated, int(version.key[1:-1])) for version in opening.versions}
        assert len(new) == len(opening.versions)
        assert not new & seen
        seen |= new
        assert opening.frontier > last
        last = opening.frontier
        assert seen == {(each.time, each.key) for each in history.commits if each.time < opening.frontier}
    assert last > Timestamp(20)

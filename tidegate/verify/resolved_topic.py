"""Lays markers from a topic of their own among the rows that they speak of.

A marker on partition p names an offset in partition p of each topic of rows. It promises the same as a marker
that stands at that offset (docs/protocols/resolved-topic.md). So it is checked by the rules for
markers among rows, once the rows before that offset have passed.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Mapping

from tidegate.changefeed.encoding.record import MarkerRecord
from tidegate.errors import InputError
from tidegate.hlc import ZERO, Timestamp
from tidegate.verify.record import TopicPartition, TopicRecord
from tidegate.verify.violation import Findings, ViolationKind


class MarkerLine:
    """The markers of one partition of rows, by their offsets. Each takes 24 bytes.

    Of several markers at one offset only the highest is kept, since it promises what the others do.
    """

    __slots__ = ("_logicals", "_offsets", "_passed", "_walls")

    def __init__(self) -> None:
        self._offsets, self._walls, self._logicals = array("q"), array("q"), array("q")
        self._passed = 0

    def add(self, offset: int, resolved: Timestamp) -> None:
        """Add a marker at an offset. All markers are added before the first call of ``pass_to``."""
        at = bisect_right(self._offsets, offset)  # the list's end, except for a topic created anew
        if at and resolved <= self._at(at - 1):
            return
        if at and self._offsets[at - 1] == offset:
            self._walls[at - 1], self._logicals[at - 1] = resolved
            return
        for column, value in zip(
            (self._offsets, self._walls, self._logicals), (offset, *resolved), strict=True
        ):
            column.insert(at, value)

    def pass_to(self, offset: int | None) -> Timestamp:
        """Pass the markers up to ``offset``. Returns the highest of them; zero if there is none.

        With ``None`` all markers that are left are passed.
        """
        highest = ZERO
        while self._passed < len(self._offsets) and (offset is None or self._offsets[self._passed] <= offset):
            highest = max(highest, self._at(self._passed))
            self._passed += 1
        return highest

    def first_above(self, offset: int) -> tuple[int, Timestamp] | None:
        """Return the offset of the first marker above ``offset``, and its timestamp; ``None`` if there is
        none.
        """
        at = bisect_right(self._offsets, offset)
        return (self._offsets[at], self._at(at)) if at < len(self._offsets) else None

    def _at(self, index: int) -> Timestamp:
        return Timestamp(self._walls[index], self._logicals[index])


class ResolvedTopic:
    """The markers of a feed's ``resolved_topic``, laid among the rows of the partitions of ``topics``.

    ``passing`` is true once the first row is checked. Then no marker can be laid any more.
    """

    __slots__ = ("_findings", "_topics", "lines", "name", "passing")

    def __init__(self, name: str, topics: Mapping[str, int], findings: Findings) -> None:
        self.name = name
        self.passing = False
        self.lines = {
            TopicPartition(topic, number): MarkerLine()
            for topic, count in topics.items()
            for number in range(count)
            if topic != name
        }
        self._topics = [(topic, count) for topic, count in topics.items() if topic != name]
        self._findings = findings

    def lay(self, record: TopicRecord, marker: MarkerRecord) -> None:
        """Lay a marker of this topic among the rows of its partition.

        Raises ``InputError`` after the first row.
        """
        if self.passing:
            raise InputError(f"The markers of {self.name} must be audited before the rows.")
        for topic, count in self._topics:
            if record.partition < count:
                self._lay(record, marker, TopicPartition(topic, record.partition))

    def pass_to(self, place: TopicPartition, offset: int | None) -> Timestamp:
        """Pass the markers before a row at ``offset``, and return the highest (``MarkerLine.pass_to``)."""
        self.passing = True
        return self.lines[place].pass_to(offset)

    def _lay(self, record: TopicRecord, marker: MarkerRecord, place: TopicPartition) -> None:
        offset = marker.offsets.get(place.topic)
        if offset is not None:
            self.lines[place].add(offset, marker.resolved)
            return
        sentence = (
            f"Offset {record.offset} of {record.topic}[{record.partition}] is a marker at {marker.resolved}"
            f" that names no offset of {place}, so it promises nothing there."
        )
        self._findings.at(ViolationKind.MARKER_WITHOUT_OFFSET, record, marker.resolved, sentence)

    def find_beyond(self, ends: Mapping[TopicPartition, int]) -> None:
        """Look for markers that name an offset above the end of its partition."""
        for place, line in self.lines.items():
            beyond = line.first_above(ends[place]) if place in ends else None
            if beyond is not None:
                offset, resolved = beyond
                sentence = (
                    f"{place} ends at offset {ends[place]}, but the marker at {resolved} names {offset}: rows"
                    " that it promised are gone, as in a topic that was deleted and created again."
                )
                self._findings.absent(ViolationKind.MARKER_BEYOND_END, place, None, resolved, sentence)

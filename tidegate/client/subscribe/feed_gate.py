"""Reads the output topics of some tables into one gate.

The gate's minimum is the lowest of the last markers of all partitions. Partitions that are far ahead of the
others are paused (`partition_pauses`). Rows that wait beyond a budget of memory go to disk (`spill_files`).
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

from tidegate.changefeed.definition.feed import FeedId
from tidegate.client.kafka.connection import KafkaConnection
from tidegate.client.subscribe.collector_pace import collector_slowed
from tidegate.client.subscribe.ended_feeds import EndedFeeds, SharedJobs
from tidegate.client.subscribe.feed_history import FeedHistory
from tidegate.client.subscribe.feed_reader import FeedReader, PartitionRecords
from tidegate.client.subscribe.partition_pauses import PartitionPauses
from tidegate.client.subscribe.spill_files import SpillFiles, SpillSettings
from tidegate.client.subscribe.standing_gate import StandingGate
from tidegate.errors import ObjectDropped
from tidegate.hlc import ZERO, Timestamp
from tidegate.subscribe.figures import SubscriptionFigures, lag_s
from tidegate.subscribe.gate.feed_record import FeedPartition
from tidegate.subscribe.gate.row_gate import GateOpening, GateStart, RowGate
from tidegate.subscribe.gate.side_markers import SideMarkers
from tidegate.subscribe.gate.spilled_rows import Spill
from tidegate.subscribe.updates.frontier import resume_as_of


class FeedGate:
    """One gate with the reader that fills it. Close it.

    ``histories`` are the histories of the tables to read. ``connection`` reaches all of their topics, and
    ``topic_ids`` has the ids of these topics. ``jobs`` reads the jobs topic for several gates; by default
    this gate reads it by itself.
    """

    def __init__(
        self,
        connection: KafkaConnection,
        histories: Sequence[FeedHistory],
        topic_ids: Mapping[str, str],
        start: GateStart,
        spill: SpillSettings | None = None,
        jobs: SharedJobs | None = None,
    ) -> None:
        spill = spill or SpillSettings()
        rows = {place for history in histories for place in history.rows}
        decoders = {history.table.target.topic: history.table.decoder() for history in histories}
        start = replace(
            start,
            begins={each.table.target.topic: each.begin for each in histories},
            silent_to={each.table.target.topic: each.table.silent_to for each in histories},
        )
        self._spill = SpillFiles(spill.directory)
        #: The store of the rows that wait, and the budget of memory for them. A snapshot in chunks may use
        #: them too.
        self.chunks = Spill(self._spill, spill.memory_bytes)
        self._gate = RowGate(decoders, sorted(rows), start, spill=self.chunks)
        rows_of_side: defaultdict[str, set[FeedPartition]] = defaultdict(set)
        for history in histories:
            if side := history.table.feed.resolved_topic:
                rows_of_side[side] |= history.rows.keys()
        #: The topics of markers, by their names, and by the partitions of rows that their markers are about.
        self._sides = {side: SideMarkers(side, own, self._gate) for side, own in rows_of_side.items()}
        self._side_of = {place: self._sides[side] for side, own in rows_of_side.items() for place in own}
        self._pauses = PartitionPauses(self._gate, sorted(rows))
        places = rows.union(*(history.markers for history in histories))
        self._reader = FeedReader(
            connection, {place: start.offsets.get(place, 0) for place in sorted(places)}, topic_ids
        )
        self._ends = _feeds_that_end(histories, jobs)
        self._places_of = defaultdict[FeedId, list[FeedPartition]](list)
        for history in histories:
            self._places_of[FeedId(history.table.feed.feed_id)] += history.rows
        self._standing = None if self._ends is None else StandingGate(self._ends, self._reader, self._marked)
        #: Records below the offsets of ``_own_below`` are known to be the feeds' own. Records below the
        #: offsets of ``_asked_below`` are the feeds' own too if the open question is answered with: no feed
        #: has ended.
        self._own_below: dict[FeedPartition, int] = {}
        self._asked_below: dict[FeedPartition, int] = {}
        self._opened = ZERO  # the timestamp up to which the last opening is complete

    @property
    def gate(self) -> RowGate:
        """The gate, for its figures."""
        return self._gate

    @property
    def positions(self) -> Mapping[FeedPartition, int]:
        """The offset at which reading goes on, for each partition."""
        return self._reader.positions

    @property
    def is_waiting(self) -> bool:
        """Whether ``read`` waits, or was interrupted while it waited and had taken nothing."""
        return self._reader.is_waiting

    @property
    def paused(self) -> tuple[FeedPartition, ...]:
        """The partitions that are not read at the moment."""
        return tuple(sorted(self._reader.paused))

    @property
    def spilled_bytes(self) -> int:
        """The number of bytes that waiting rows take on the disk."""
        return self._spill.disk_bytes

    @property
    def retention_margin(self) -> int:
        """The number of records between the offset at which a resume would begin to read and the records that
        Kafka has deleted, in the partition where it is lowest."""
        lows = self._reader.lows
        return min(offset - lows.get(place, 0) for place, offset in self.offsets().items())

    def figures(self, output: str) -> SubscriptionFigures:
        """Return those figures of a subscription that the reading knows. Any thread may ask."""
        gate = self._gate
        return SubscriptionFigures(
            output=output,
            repeats=gate.repeats,
            delivered=gate.delivered,
            lag_s=lag_s(gate.delivered, time.time_ns()),
            waiting_rows=gate.waiting_rows,
            waiting_bytes=gate.waiting_bytes,
            spilled_bytes=self.spilled_bytes,
            paused=self.paused,
            retention_margin=self.retention_margin,
        )

    def open(self) -> GateOpening | None:
        """Return the rows that became complete since the last call; ``None`` if the minimum did not rise.

        Call ``is_same`` before you use the rows: it tells whether the topics are still those with which the
        reading began.
        """
        if self._gate.minimum > self._gate.delivered:
            self._reader.ask_topics()
            self._ask_ends()
            if self._standing is not None:
                self._standing.opens()
        opening = self._gate.open()
        if opening is not None:
            self._opened = resume_as_of(opening.frontier)
        return opening

    def is_same(self, timeout_s: float) -> bool:
        """Wait until Kafka has confirmed the last opening.

        It has to confirm that at the opening the topics were still those with which the reading began, and
        that they belonged to the same feeds. Returns ``False`` if the answers have not come within
        ``timeout_s`` seconds. Raises ``HistoryLost`` or ``ObjectDropped`` if a topic was made anew or
        dropped, or if a feed has ended below the opening.
        """
        until = time.monotonic() + timeout_s
        return self._reader.same_topics(timeout_s) and self._is_own(max(0.0, until - time.monotonic()))

    def has_ended(self, *, is_begun: bool) -> bool:
        """Return whether nothing follows, because a feed has succeeded. Call it if the gate does not open.

        ``is_begun`` says whether the reading has given its beginning, such as a snapshot. Raises
        ``ObjectDropped`` if nothing follows because a feed was dropped or has failed. Raises it also if a
        feed has succeeded, but the reading has not given its beginning, or not everything up to the feed's
        high-water. Returns ``False`` without a jobs topic, since no end is known then.
        """
        if self._standing is None or self._gate.minimum > self._gate.delivered:
            return False
        return self._standing.has_ended(self._gate.delivered, is_begun=is_begun)

    def _marked(self, feed_id: FeedId) -> Timestamp:
        """Return the lowest of the last markers of a feed's partitions."""
        return min(map(self._gate.bound_of, self._places_of[feed_id]))

    def _ask_ends(self) -> None:
        """Ask for ends of feeds, unless all that was read is known to be the feeds' own."""
        positions = self._reader.positions
        if self._ends is not None and any(
            offset > self._own_below.get(place, 0) for place, offset in positions.items()
        ):
            self._asked_below = self._reader.highs()
            self._ends.ask()

    def _is_own(self, timeout_s: float) -> bool:
        if self._ends is None or not self._asked_below:
            return True
        if not self._ends.look(timeout_s):
            return False
        end = self._ends.first()
        if end is None:
            self._own_below, self._asked_below = self._asked_below, {}
            return True
        if self._opened <= end.high_water:
            return True
        raise ObjectDropped(
            f"feed {end.feed_id} has ended, complete up to {end.high_water}; what follows on its topics is "
            "another feed's. Begin again with a snapshot of the feed that has the table now"
        )

    def offsets(self) -> dict[FeedPartition, int]:
        """Return the offset at which a resume reads on, for each partition."""
        offsets = self._gate.offsets()
        for side in self._sides.values():
            offsets |= side.offsets()
        return offsets

    def read(self, timeout_s: float) -> None:
        """Wait for records, up to ``timeout_s`` seconds, and give all that have come to the gate.

        Raises what `FeedReader` and `RowGate` raise.
        """
        self._reader.pause(self._pauses.now())
        polled = self._reader.poll(timeout_s)
        with collector_slowed():
            self._pass_to_gate(polled)

    def _pass_to_gate(self, polled: Sequence[PartitionRecords]) -> None:
        for place, records in polled:
            side = self._sides.get(place.topic)
            if side is None:
                self._gate.add_records(place, records)
                continue
            for at in range(len(records.offsets)):
                side.add_record(place, records.record(at))
        for place, side in self._side_of.items():
            side.reach(place, self._reader.positions[place])

    def close(self) -> None:
        """Close the client, and delete the files of rows that wait."""
        self._reader.close()
        if self._ends is not None:
            self._ends.close()
        self._spill.close()


def _feeds_that_end(histories: Sequence[FeedHistory], jobs: SharedJobs | None) -> EndedFeeds | None:
    """Return the ends of the tables' feeds, which are of one application.

    Returns ``None`` if no table names its application.
    """
    tables = [history.table for history in histories]
    application = next((table.application for table in tables if table.application is not None), None)
    if application is None:
        return None
    return EndedFeeds(application, {FeedId(table.feed.feed_id) for table in tables}, jobs)

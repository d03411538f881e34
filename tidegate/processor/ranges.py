"""The ranges of one log partition: entries in, committed versions out.

One bad range never stops another: an entry that cannot be followed quarantines its range, named in an
incident, and the rest of the batch goes on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tidegate.errors import MalformedEntry, RangeError
from tidegate.hlc import ResolvedTimestamp
from tidegate.processor.batch import Incident, RangeCheckpoint, StateChange
from tidegate.processor.state_codec import chunk_rows, intent_rows, range_row
from tidegate.raftlog.encode import partition_of
from tidegate.raftlog.entry import Command, Heartbeat, Offset, RangeEnd, RangeId, Snapshot
from tidegate.rangefeed.range_state import RangeState, RangeStatus, Version
from tidegate.rows.table_key import without_tenant
from tidegate.spans import Span


class PartitionRanges:
    """All ranges of log partition ``partition`` of ``partitions``."""

    def __init__(self, partition: int, partitions: int) -> None:
        self.partition = partition
        self.partitions = partitions
        self._ranges: dict[RangeId, RangeState] = {}
        self._touched: dict[RangeId, RangeState] = {}
        #: Per range the span that its keys were last seen to have, and the same without tenant prefix.
        self._table_spans: dict[RangeId, tuple[Span, Span]] = {}
        self._incidents: list[Incident] = []

    def __iter__(self) -> Iterator[RangeState]:
        return iter(self._ranges.values())

    def __len__(self) -> int:
        return len(self._ranges)

    def get(self, range_id: RangeId) -> RangeState | None:
        """The range if the log has named it."""
        return self._ranges.get(range_id)

    def is_live(self, range_id: RangeId) -> bool:
        """Whether the range is followed."""
        state = self._ranges.get(range_id)
        return state is not None and state.status is RangeStatus.LIVE

    def restore(self, state: RangeState) -> None:
        """Put back a range as it was stored."""
        self._ranges[state.range_id] = state

    @property
    def touched(self) -> Iterable[RangeState]:
        """The ranges that changed since the last freeze."""
        return self._touched.values()

    def apply(self, entry: Command | Heartbeat | Snapshot | RangeEnd, offset: Offset) -> list[Version]:
        """Take the next entry of the partition; returns the versions that it committed.

        A command whose op is forbidden commits nothing: its range is complete up to the resolved
        timestamp from before it, and quarantined there.
        """
        range_id = entry.range_id
        if partition_of(range_id, self.partitions) != self.partition:
            self._report_stray(range_id, offset)
            return []
        state = self._ranges.get(range_id)
        if state is None:
            state = self._ranges[range_id] = RangeState(range_id)
        self._touched[range_id] = state
        resolved = state.resolved
        try:
            return state.apply(entry)
        except RangeError as error:
            self._quarantine(state, offset, str(error), resolved)
            return []

    def refuse(self, range_id: RangeId | None, offset: Offset, error: MalformedEntry) -> None:
        """A record that could not be read: a hole in its range, or in all when it names none."""
        if range_id is not None and partition_of(range_id, self.partitions) != self.partition:
            self._report_stray(range_id, offset)
        elif range_id is None or range_id == 0:
            self.quarantine_all(offset, f"an unreadable record that names no range: {error}")
        else:
            state = self._ranges.setdefault(range_id, RangeState(range_id))
            self._quarantine(state, offset, str(error), state.resolved)

    def quarantine_all(self, offset: Offset, cause: str) -> None:
        """A hole that may belong to any range of the partition."""
        for state in self._ranges.values():
            self._quarantine(state, offset, cause, state.resolved)

    def checkpoints(self, spans: Iterable[Span], *, everything: bool = False) -> list[RangeCheckpoint]:
        """The checkpoints that touched ranges (or all) can give over keys that ``spans`` watch.

        Spans here and in the checkpoints have no tenant prefix, as the rows that come out have none.
        The latest of each range; one that did not move since its last checkpoint gives none. A range that
        was quarantined gives a last one: how far a feed comes must not depend on how the log was batched.
        """
        watched = tuple(spans)
        found = []
        for state in self._ranges.values() if everything else self._touched.values():
            span = self._table_span(state)
            if span is None or not any(span.overlaps(w) for w in watched):
                continue
            resolved = state.resolver.resolved if state.checkpointable else state.last_checkpoint
            if resolved > state.published or (everything and resolved.wall > 0):
                state.published = resolved
                found.append(RangeCheckpoint(state.range_id, state.generation, span, resolved))
        return found

    def _table_span(self, state: RangeState) -> Span | None:
        """The range's span without tenant prefix, worked out once for each span that it has."""
        span = state.span
        if span is None:
            return None
        known = self._table_spans.get(state.range_id)
        if known is None or known[0] is not span:
            known = self._table_spans[state.range_id] = (span, without_tenant(span))
        return known[1]

    def freeze(self, offset: Offset) -> list[StateChange]:
        """The rows of everything that changed since the last freeze, as bytes of this moment."""
        changes: list[StateChange] = []
        for state in self._touched.values():
            changes.append(range_row(state, offset))
            changes.extend(chunk_rows(state))
            changes.extend(intent_rows(state, offset))
        self._touched = {}
        return changes

    def take_incidents(self) -> list[Incident]:
        """What was reported since the last call."""
        incidents, self._incidents = self._incidents, []
        return incidents

    def _quarantine(self, state: RangeState, offset: Offset, cause: str, resolved: ResolvedTimestamp) -> None:
        if state.status in (RangeStatus.QUARANTINED, RangeStatus.ENDED):
            return
        state.quarantine_at(offset, cause, resolved)
        self._touched[state.range_id] = state
        self._report(state.range_id, offset, f"range {state.range_id} is quarantined at {resolved}: {cause}")

    def _report_stray(self, range_id: RangeId, offset: Offset) -> None:
        self._report(
            range_id,
            offset,
            f"a record of range {range_id} was skipped: it belongs to partition "
            f"{partition_of(range_id, self.partitions)} of {self.partitions}",
        )

    def _report(self, range_id: RangeId, offset: Offset, cause: str) -> None:
        self._incidents.append(Incident(self.partition, offset, range_id, None, cause))

"""What the ranges of a log partition promise to frontiers: how far each is resolved, key by key."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tidegate.processor.batch import RangeCheckpoint
from tidegate.processor.table.range_table import RangeTable
from tidegate.raftlog.entry import RangeId
from tidegate.ranges.range_state import RangeStatus
from tidegate.rows.table_key import without_tenant
from tidegate.spans import Span


class RangeCheckpoints:
    """Reads checkpoints off the ranges of ``table``."""

    def __init__(self, table: RangeTable) -> None:
        self._table = table
        #: Per range the span that its keys were last seen to have, and the same without tenant prefix.
        self._table_spans: dict[RangeId, tuple[Span, Span]] = {}
        #: Ranges that have lost all keys that are watched, and have not told so.
        self._moved_away: set[RangeId] = set()

    def of(self, spans: Iterable[Span], *, everything: bool) -> list[RangeCheckpoint]:
        """The checkpoints that touched ranges (or all) can give over keys that ``spans`` watch.

        Spans here and in the checkpoints have no tenant prefix, as the rows that come out have none.
        The latest of each range; one that did not move since its last checkpoint gives none. A range that
        was quarantined gives a last one: how far a feed comes must not depend on how the log was batched. One
        that has ended gives none: feeds that were activated since had nothing from it. So does one that broke
        where feeds lack rows. One whose watched keys have all gone to others tells its new span once.
        """
        watched = tuple(spans)
        found = []
        for state in (self._table.states if everything else self._table.touched).values():
            if state.span is None or state.status is RangeStatus.ENDED:
                continue
            before = self._table_spans.get(state.range_id)
            span = self._table_span(state.range_id, state.span)
            if before is not None and before[1] is not span:
                self._note_move(state.range_id, before[1], span, watched)
            if not (state.range_id in self._moved_away or _is_watched(span, watched)):
                continue
            resolved = state.resolver.resolved if state.checkpointable else state.last_checkpoint
            if state.lags and not state.checkpointable:
                continue
            if resolved > state.published or (everything and resolved.wall > 0):
                state.published = resolved
                self._moved_away.discard(state.range_id)
                found.append(RangeCheckpoint(state.range_id, state.generation, span, resolved))
        return found

    def _table_span(self, range_id: RangeId, span: Span) -> Span:
        """The range's ``span`` without tenant prefix, worked out once for each span that it has."""
        known = self._table_spans.get(range_id)
        if known is None or known[0] is not span:
            known = self._table_spans[range_id] = (span, without_tenant(span))
        return known[1]

    def _note_move(self, range_id: RangeId, before: Span, now: Span, watched: Sequence[Span]) -> None:
        """The range's span has changed: note if all of its keys that are watched have left it."""
        if _is_watched(before, watched) and not _is_watched(now, watched):
            self._moved_away.add(range_id)


def _is_watched(span: Span, watched: Sequence[Span]) -> bool:
    return any(span.overlaps(each) for each in watched)

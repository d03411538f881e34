"""Checkpoints of the ranges of a log partition: they tell frontiers how far each span is resolved."""

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
        #: For each range its span when it was last looked at, and the same span without tenant prefix.
        self._table_spans: dict[RangeId, tuple[Span, Span]] = {}
        #: Ranges whose watched keys have all gone to others, and whose new span no checkpoint has told yet.
        self._moved_away: set[RangeId] = set()

    def of(self, spans: Iterable[Span], *, everything: bool) -> list[RangeCheckpoint]:
        """Return the checkpoints of touched ranges (with ``everything``, of all) that have keys of ``spans``.

        Spans here and in the checkpoints have no tenant prefix, like the keys of the rows that come out.

        * A range gives a checkpoint only if its resolved timestamp has risen since its last one. With
          ``everything`` it repeats the last one.
        * A range that was quarantined gives a last one: how far a feed comes must not depend on how the log
          was divided into batches. It gives none if feeds have gaps in it.
        * A range that has ended gives none: feeds that were activated since were given nothing from it.
        * A range whose watched keys have all gone to others tells its new span once.
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
        """Return the range's ``span`` without tenant prefix.

        It is worked out once for each span of a range.
        """
        known = self._table_spans.get(range_id)
        if known is None or known[0] is not span:
            known = self._table_spans[range_id] = (span, without_tenant(span))
        return known[1]

    def _note_move(self, range_id: RangeId, before: Span, now: Span, watched: Sequence[Span]) -> None:
        """Note the range in ``_moved_away`` if it had watched keys ``before`` and has none ``now``."""
        if _is_watched(before, watched) and not _is_watched(now, watched):
            self._moved_away.add(range_id)


def _is_watched(span: Span, watched: Sequence[Span]) -> bool:
    return any(span.overlaps(each) for each in watched)

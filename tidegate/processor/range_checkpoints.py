"""What the ranges of a log partition promise to frontiers: how far each is resolved, key by key."""

from __future__ import annotations

from collections.abc import Iterable

from tidegate.processor.batch import RangeCheckpoint
from tidegate.processor.range_table import RangeTable
from tidegate.raftlog.entry import RangeId
from tidegate.rangefeed.range_state import RangeState, RangeStatus
from tidegate.rows.table_key import without_tenant
from tidegate.spans import Span


class RangeCheckpoints:
    """Reads checkpoints off the ranges of ``table``."""

    def __init__(self, table: RangeTable) -> None:
        self._table = table
        #: Per range the span that its keys were last seen to have, and the same without tenant prefix.
        self._table_spans: dict[RangeId, tuple[Span, Span]] = {}

    def of(self, spans: Iterable[Span], *, everything: bool) -> list[RangeCheckpoint]:
        """The checkpoints that touched ranges (or all) can give over keys that ``spans`` watch.

        Spans here and in the checkpoints have no tenant prefix, as the rows that come out have none.
        The latest of each range; one that did not move since its last checkpoint gives none. A range that
        was quarantined gives a last one: how far a feed comes must not depend on how the log was batched. One
        that has ended gives none: feeds that were activated since had nothing from it. So does one that broke
        where feeds lack rows.
        """
        watched = tuple(spans)
        found = []
        for state in (self._table.states if everything else self._table.touched).values():
            span = None if state.status is RangeStatus.ENDED else self._table_span(state)
            if span is None or not any(span.overlaps(w) for w in watched):
                continue
            resolved = state.resolver.resolved if state.checkpointable else state.last_checkpoint
            if state.lags and not state.checkpointable:
                continue
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

"""Checkpoints of the ranges of a log partition: they tell frontiers how far each span is resolved."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from tidegate.processor.batch import RangeCheckpoint
from tidegate.processor.table.range_table import RangeTable
from tidegate.raftlog.entry import RangeId
from tidegate.ranges.range_state import RangeStatus
from tidegate.rows.table_key import without_tenant
from tidegate.spans import Span

_new: Final = tuple.__new__


class _Watched(NamedTuple):
    """A range's ``own`` span, the same ``span`` without tenant prefix, and whether feeds watch keys of it.

    ``by`` are the spans that feeds watch.
    """

    own: Span
    span: Span
    by: tuple[Span, ...]
    is_watched: bool


class RangeCheckpoints:
    """Reads checkpoints off the ranges of ``table``."""

    def __init__(self, table: RangeTable) -> None:
        self._table = table
        #: The state of each range when it was last looked at.
        self._looked_at: dict[RangeId, _Watched] = {}
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
            before = self._looked_at.get(state.range_id)
            if before is not None and before.own is state.span and before.by is watched:
                now = before
            else:
                now = self._look_at(state.range_id, before, state.span, watched)
            if not (now.is_watched or state.range_id in self._moved_away):
                continue
            if state.checkpointable:
                resolved = state.resolver.resolved
            elif state.gaps:
                continue
            else:
                resolved = state.last_checkpoint
            if resolved > state.published or (everything and resolved.wall > 0):
                state.published = resolved
                self._moved_away.discard(state.range_id)
                checkpoint = (state.range_id, state.generation, now.span, resolved)
                found.append(_new(RangeCheckpoint, checkpoint))
        return found

    def _look_at(
        self, range_id: RangeId, before: _Watched | None, own: Span, watched: tuple[Span, ...]
    ) -> _Watched:
        """Look whether feeds watch keys of a range. It is done once for each span, and for each set of feeds.

        The range is noted in ``_moved_away`` if it had watched keys ``before`` and has none now.
        """
        span = before.span if before is not None and before.own is own else without_tenant(own)
        now = self._looked_at[range_id] = _Watched(own, span, watched, _is_watched(span, watched))
        if before is not None and not now.is_watched and _is_watched(before.span, watched):
            self._moved_away.add(range_id)
        return now


def _is_watched(span: Span, watched: Sequence[Span]) -> bool:
    return any(span.overlaps(each) for each in watched)

"""The outputs stage: holds updates until a frontier passes them, then shows them in the statement's form.

1. An update at or below AS OF is of the snapshot: its time becomes AS OF. Without SNAPSHOT it is left out. So
   AS OF is inclusive with a snapshot and exclusive without one.
2. An update at or above UP TO is left out.
3. When the frontier rises to F, the updates below F are shown timestamp by timestamp. Equal rows of a
   timestamp are one row, with the sum of their diffs. Rows that are equal but written differently, as
   1.0 and 1.00, are two rows: a row is retracted in the form in which it was added. In Materialize's dialect
   no number has a scale, and both are 1.
4. With PROGRESS a progress row at F follows. It says that no update below F will come any more; an update
   *at* F may still come. The first row of all is a progress row at AS OF. Each F has one progress row, and
   only if it is above AS OF.
5. A frontier at or above UP TO, or the empty frontier, ends the stream.

Source: Materialize ``src/compute/src/sink/subscribe.rs``, ``src/adapter/src/active_compute_sink.rs``.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from tidegate.hlc import Timestamp
from tidegate.subscribe.columnar_rows import joined
from tidegate.subscribe.outputs.dialect import Dialect
from tidegate.subscribe.outputs.diff_rows import DiffRows
from tidegate.subscribe.outputs.keyed_rows import KeyedRows
from tidegate.subscribe.outputs.shape import OutputShape
from tidegate.subscribe.outputs.tracked_keys import TrackedKeys
from tidegate.subscribe.statement.statement import OutputMode
from tidegate.subscribe.updates.frontier import Frontier, Progress, frontier_after
from tidegate.subscribe.updates.row_identity import written_identity
from tidegate.subscribe.updates.scales import without_scales
from tidegate.subscribe.updates.update import RowValues, Update

_DIFFS: Final = frozenset({OutputMode.DIFFS, OutputMode.ORDERED})


@dataclass(frozen=True, slots=True)
class OutputBounds:
    """The times that are shown: from ``as_of`` (see step 1) up to ``up_to``.

    ``up_to`` itself is not shown; ``None`` means that there is no end.
    """

    as_of: Timestamp
    up_to: Timestamp | None = None
    snapshot: bool = True


class Outputs:
    """The stage's state: the updates that wait, and the frontier that was reached."""

    __slots__ = ("_bounds", "_dialect", "_form", "_shape", "_waiting", "ended", "frontier")

    def __init__(
        self,
        shape: OutputShape,
        bounds: OutputBounds,
        dialect: Dialect = Dialect.TIDEGATE,
        *,
        track_keys: bool = False,
    ) -> None:
        self._shape = shape
        self._bounds = bounds
        self._dialect = dialect
        self._form: DiffRows | KeyedRows | TrackedKeys
        if shape.mode in _DIFFS:
            self._form = DiffRows(shape, dialect)
        else:
            self._form = TrackedKeys(shape) if track_keys else KeyedRows(shape)
        self._waiting: dict[Timestamp, dict[Hashable, Update]] = {}
        #: Every update below it has been shown.
        self.frontier = Frontier(bounds.as_of)
        self.ended = False

    @property
    def header(self) -> tuple[str, ...]:
        """The names of the columns of every row."""
        return self._shape.header

    def opening(self) -> list[RowValues]:
        """Return the rows that come before all other rows: a progress row at AS OF with PROGRESS, else
        none."""
        return self._progress_rows(self._bounds.as_of)

    def add_updates(self, updates: Iterable[Update]) -> None:
        """Hold updates until the frontier passes them; their order does not matter."""
        as_of, up_to, snapshot = self._bounds.as_of, self._bounds.up_to, self._bounds.snapshot
        for update in updates:
            if update.time <= as_of:
                if not snapshot:
                    continue
                update = update._replace(time=as_of)
            if up_to is None or update.time < up_to:
                self._hold(update)

    def advance(self, progress: Progress, shown: Sequence[RowValues] = ()) -> Sequence[RowValues]:
        """Return the rows of all updates below a frontier, and the progress row of this frontier.

        ``None`` is the empty frontier: no update follows at all.

        ``shown`` are rows of updates that were not held here, already in the statement's form; they come
        first. A frontier that does not rise gives no rows. After the end no frontier gives rows.
        """
        up_to = self._bounds.up_to
        ends = progress is None or (up_to is not None and progress >= up_to)
        if self.ended or not (ends or self._rises(progress)):
            return []
        self.ended = ends
        rows = joined(shown, self._rows_below(progress))
        risen = progress
        if ends:
            risen = None if up_to is None or self._dialect is Dialect.MATERIALIZE else Frontier(up_to)
        if risen is not None and risen > self._bounds.as_of:
            rows = joined(rows, self._progress_rows(risen))
        if progress is not None:
            self.frontier = progress if up_to is None else Frontier(min(progress, up_to))
        elif up_to is not None:
            self.frontier = Frontier(up_to)
        return rows

    def rows_at_as_of(self) -> list[RowValues]:
        """Return the rows of all updates at AS OF that are held: a chunk of the snapshot."""
        return self._rows_below(frontier_after(self._bounds.as_of))

    def _rises(self, progress: Progress) -> bool:
        return progress is not None and progress > self.frontier

    def _hold(self, update: Update) -> None:
        rows = self._waiting.setdefault(update.time, {})
        if self._dialect is Dialect.MATERIALIZE:
            update = update._replace(row=without_scales(update.row))
        identity = written_identity(update.row)
        known = rows.get(identity)
        rows[identity] = update if known is None else known._replace(diff=known.diff + update.diff)

    def _rows_below(self, progress: Progress) -> list[RowValues]:
        times = sorted(time for time in self._waiting if progress is None or time < progress)
        rows: list[RowValues] = []
        for time in times:
            first = (time, False) if self._shape.progress else (time,)
            updates = [each for each in self._waiting.pop(time).values() if each.diff]
            rows += [(*first, *row) for row in self._form.rows(updates)]
        return rows

    def _progress_rows(self, at: Timestamp) -> list[RowValues]:
        if not self._shape.progress:
            return []
        return [(at, True, *(None,) * (len(self._shape.header) - 2))]

"""The short path of rows through a subscription without a query: from opened rows to rows in the statement's
form.

1. Rows at or below AS OF belong to the snapshot. Of each key only the newest row is kept, as bytes. When the
   frontier passes AS OF, these rows are decoded, and shown once, at AS OF.
2. Rows above AS OF are decoded, and shown timestamp by timestamp.

The result has the same rows as that of `RowUpdates` and `Outputs`, which take any query.

If there is a function that makes tables (`MakeTable`), the rows are given as tables (`ColumnarRows`).
Versions that the function refuses are decoded as above.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from tidegate.hlc import Timestamp
from tidegate.subscribe.changes.key_rows import KeyRows
from tidegate.subscribe.changes.newest_rows import NewestRows
from tidegate.subscribe.changes.plain_changes import PlainChanges
from tidegate.subscribe.changes.row_updates import RowBefore
from tidegate.subscribe.columnar_rows import ColumnarRows, MakeTable, joined
from tidegate.subscribe.gate.opened_rows import DecodeRow, OpenedRows
from tidegate.subscribe.gate.row_gate import GateOpening
from tidegate.subscribe.outputs.output_stage import OutputBounds
from tidegate.subscribe.outputs.plain_rows import plain_rows
from tidegate.subscribe.outputs.shape import OutputShape
from tidegate.subscribe.plan import SubscribePlan
from tidegate.subscribe.updates.process_share import HeldRows
from tidegate.subscribe.updates.relation import Relation
from tidegate.subscribe.updates.row_size import row_bytes
from tidegate.subscribe.updates.update import RowValues

#: A snapshot is decoded in pieces of this many rows, because the objects that the decoder makes on the way
#: take more memory than the finished rows.
_DECODED_ROWS: Final = 20_000


class PlainPath:
    """The state of one subscription without a query."""

    __slots__ = (
        *("_begun", "_bounds", "_changes", "_held", "_make_table", "_newest", "_progress", "_show"),
        "_wants_newest",
    )

    def __init__(
        self,
        plan: SubscribePlan,
        bounds: OutputBounds,
        before: RowBefore,
        key_rows: KeyRows,
        held: HeldRows | None = None,
        reduced: Collection[str] = (),
        make_table: MakeTable | None = None,
    ) -> None:
        """``held`` counts the memory of a snapshot's rows while they are made; `PlainChanges` explains
        ``reduced``.

        ``make_table`` is ignored if rows have to be stored by their keys (`RowBefore.KEY_ROWS`).
        """
        self._make_table = None if before is RowBefore.KEY_ROWS else make_table
        self._held = held or HeldRows(None)
        self._bounds = bounds
        relation, shape = plan.relation, plan.shape
        if before is RowBefore.NOWHERE:  # no table keeps its rows: they can be made in the output's order
            relation, shape = _in_output_order(relation, shape)
        self._changes = PlainChanges(relation, before, key_rows, reduced)
        self._show = plain_rows(shape)
        self._progress = plan.shape.progress
        self._wants_newest = bounds.snapshot or before is RowBefore.KEY_ROWS
        self._newest = NewestRows(self._held.share)
        self._begun = False

    def rows(self, opening: GateOpening) -> Sequence[RowValues]:
        """Return the rows that show an opening. The caller has cut off what is at or above UP TO.

        Raises as ``RowUpdates.updates`` does.
        """
        opened, as_of = opening.rows, self._bounds.as_of
        early = opened.split(as_of)
        if early and self._wants_newest:
            self._newest.add_rows(opened.part(0, early))
        shown: Sequence[RowValues] = []
        if not self._begun and opening.frontier > as_of:
            self._begun = True
            shown = self._first_rows(opening)
        if early < len(opened):
            shown = joined(shown, self._later_rows(opened.part(early, len(opened)), opening))
        return shown

    def _first_rows(self, opening: GateOpening) -> Sequence[RowValues]:
        """Return the rows of the snapshot; none if the statement asks for no snapshot.

        The table of rows by key takes the snapshot's rows in any case.
        """
        newest, self._newest = self._newest.rows(), NewestRows()
        return self.snapshot_rows(newest, opening.decode)

    def snapshot_rows(self, newest: OpenedRows, decode: DecodeRow) -> Sequence[RowValues]:
        """Show some keys as ``_first_rows`` does. ``newest`` has the newest version of each of them at AS
        OF."""
        if self._make_table is not None and self._bounds.snapshot and len(newest):
            table = self._make_table(newest, self._bounds.as_of, decode)
            if table is not None:
                return ColumnarRows([table], [lambda: self._snapshot_tuples(newest, decode)])
        return self._snapshot_tuples(newest, decode)

    def _snapshot_tuples(self, newest: OpenedRows, decode: DecodeRow) -> list[RowValues]:
        pieces = [newest.part(at, at + _DECODED_ROWS) for at in range(0, len(newest), _DECODED_ROWS)]
        pieces.reverse()
        shown: list[RowValues | None] = []
        while pieces:
            some = [row for row in self._changes.begin(pieces.pop(), decode) if row is not None]
            if self._held.share is not None:
                self._held.add(sum(map(row_bytes, some)))
            shown += some
        if not self._bounds.snapshot:
            return []
        return self._show([(self._head(self._bounds.as_of), 0, len(shown))], [None] * len(shown), shown)

    def _later_rows(self, opened: OpenedRows, opening: GateOpening) -> Sequence[RowValues]:
        decode = opening.decode
        if self._make_table is not None:
            table = self._make_table(opened, None, decode)
            if table is not None:
                return ColumnarRows([table], [lambda: self._later_tuples(opened, decode)])
        return self._later_tuples(opened, decode)

    def _later_tuples(self, opened: OpenedRows, decode: DecodeRow) -> list[RowValues]:
        before, after = self._changes.pairs(opened, decode)
        walls, logicals = opened.walls, opened.logicals
        new = np.flatnonzero((walls[1:] != walls[:-1]) | (logicals[1:] != logicals[:-1])) + 1
        begins = [0, *new.tolist()]
        ends = [*begins[1:], len(opened)]
        heads = map(self._head, map(Timestamp, walls[begins].tolist(), logicals[begins].tolist()))
        return self._show(zip(heads, begins, ends, strict=True), before, after)

    def _head(self, time: Timestamp) -> RowValues:
        return (time, False) if self._progress else (time,)


def _in_output_order(relation: Relation, shape: OutputShape) -> tuple[Relation, OutputShape]:
    """Put the relation's columns into the order of the output: those of KEY come first."""
    columns = tuple(relation.columns[at] for at in (*shape.key, *shape.rest))
    keys = len(shape.key)
    return (
        replace(relation, columns=columns, types=()),
        replace(shape, columns=columns, key=tuple(range(keys)), rest=tuple(range(keys, len(columns)))),
    )

"""The rows that a statement shows of a table's changes. Several subscriptions share the table and its
changes.

The changes were decoded before (`TableChanges`). The rows are the same as those of a `Subscription`. If the
query has neither LIMIT nor OFFSET, nothing is remembered from one change to the next. Then all subscriptions
of one statement may be given the same rows, whenever they began.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from tidegate.errors import UnreadableRow
from tidegate.hlc import ZERO, Timestamp
from tidegate.subscribe.changes.reduced_keys import ReducedColumns
from tidegate.subscribe.changes.table_changes import TableChanges
from tidegate.subscribe.fingerprint import fingerprint
from tidegate.subscribe.outputs.output_stage import OutputBounds, Outputs
from tidegate.subscribe.outputs.plain_rows import TimeGroup, plain_rows
from tidegate.subscribe.plan import SubscribePlan
from tidegate.subscribe.query.shown_bytes import ShownBytes
from tidegate.subscribe.subscription import comes_in_chunks, is_plain, reduced_columns
from tidegate.subscribe.updates.frontier import Frontier, resume_as_of
from tidegate.subscribe.updates.process_share import ProcessShare
from tidegate.subscribe.updates.update import RowValues, Update


@dataclass(frozen=True, slots=True, eq=False)
class ShownRows:
    """Changes in the form of a statement: rows, the frontier after them, and whether UP TO is reached."""

    rows: tuple[RowValues, ...]
    frontier: Frontier
    is_last: bool = False


class StatementRows:
    """Shows changes in the form of a plan.

    Attributes:
        fingerprint: the fingerprint of the plan's tokens.
        form: equal for two plans only if they show the same rows for the same changes.
        stateful: whether it has to be given a snapshot and all changes after it, each once and in order.
    """

    __slots__ = ("_columns", "_plain", "_plan", "_selection", "_share", "fingerprint", "form", "stateful")

    def __init__(self, plan: SubscribePlan, source: str, share: ProcessShare | None = None) -> None:
        """``source`` is the feed, which is a part of the fingerprint. ``share`` bounds the memory of the rows
        that are kept if ``stateful``.
        """
        self._plan = plan
        self._share = share
        self._selection = plan.selection(share)
        reduced = reduced_columns(plan)
        self._columns = ReducedColumns(plan.relation, reduced) if reduced else None
        self._plain = plain_rows(plan.shape) if is_plain(plan) else None
        self.stateful = self._selection is not None and self._selection.stateful
        self.fingerprint = fingerprint(plan, source)
        # Tokens outlive a change of a column's type; a query compares by the types that it was planned with.
        self.form: Hashable = (self.fingerprint, plan.shape, plan.dialect, plan.relation.types)

    @property
    def gives_chunks(self) -> bool:
        """Whether a snapshot can be shown in chunks."""
        return comes_in_chunks(self._plan, ZERO)

    @property
    def header(self) -> tuple[str, ...]:
        """The names of the columns of every row."""
        return self._plan.shape.header

    def opening(self, as_of: Timestamp) -> tuple[RowValues, ...]:
        """Return the rows that come before all other rows: a progress row at AS OF with PROGRESS, else
        none."""
        return tuple(self._outputs(as_of).opening())

    def snapshot(
        self, rows: Sequence[RowValues], frontier: Frontier, made: ShownBytes | None = None
    ) -> ShownRows:
        """Show the table's rows as of a frontier, as the snapshot of a subscription that begins there.

        If ``stateful``, the object first forgets all rows that it was given before, such as those of an
        earlier snapshot that was not finished. ``made`` counts the bytes of the rows that the query makes,
        and bounds them; by default they have the bound of a batch. Raises ``EvaluationError`` (also its kind
        ``LimitExceeded``), what ``made`` raises, and ``UnreadableRow`` for JSON that is nested too deeply to
        be compared.
        """
        made = made or ShownBytes()
        if self.stateful:
            self._selection = self._plan.selection(self._share)
        as_of = resume_as_of(frontier)
        outputs = self._outputs(as_of)
        rows = self._reduced(rows)
        shown: list[RowValues] = []
        with _refusing_deep_json(frontier):
            if not self._plan.snapshot:
                if self.stateful:
                    self._selected((Update(as_of, 1, row) for row in rows), made)
            elif self._plain is not None:
                shown = self._plain([(self._head(as_of), 0, len(rows))], [None] * len(rows), [*rows])
            else:
                outputs.add_updates(self._selected((Update(as_of, 1, row) for row in rows), made))
            return ShownRows(tuple(outputs.advance(frontier, shown)), frontier)

    def chunk(
        self, rows: Sequence[RowValues], frontier: Frontier, made: ShownBytes | None = None
    ) -> list[RowValues]:
        """Show some of the table's rows as of a frontier, if the statement ``gives_chunks``.

        Raises as ``snapshot``.
        """
        as_of = resume_as_of(frontier)
        rows = self._reduced(rows)
        if self._plain is not None:
            return self._plain([(self._head(as_of), 0, len(rows))], [None] * len(rows), [*rows])
        outputs = self._outputs(as_of)
        with _refusing_deep_json(frontier):
            outputs.add_updates(self._selected((Update(as_of, 1, row) for row in rows), made or ShownBytes()))
            return outputs.rows_at_as_of()

    def changes(
        self, changes: TableChanges, up_to: Timestamp | None = None, made: ShownBytes | None = None
    ) -> ShownRows:
        """Show changes, but nothing at or above ``up_to``. ``made`` and errors are those of ``snapshot``."""
        with _refusing_deep_json(changes.frontier):
            return self._changes(changes, up_to, made or ShownBytes())

    def _changes(self, changes: TableChanges, up_to: Timestamp | None, made: ShownBytes) -> ShownRows:
        outputs = self._outputs(resume_as_of(changes.before), up_to)
        shown: list[RowValues] = []
        if up_to is not None and changes.frontier > up_to:
            changes = changes.below(up_to)  # a row that is not shown must change nothing
        if self._columns is not None:
            row = self._columns.row
            reduced = [[(row(gone), row(come)) for gone, come in pairs] for pairs in changes.pairs]
            changes = replace(changes, pairs=reduced)
        if self._plain is not None:
            groups: list[TimeGroup] = []
            before: list[RowValues | None] = []
            after: list[RowValues | None] = []
            for time, pairs in zip(changes.times, changes.pairs, strict=True):
                begin = len(before)
                before += (gone for gone, _ in pairs)
                after += (come for _, come in pairs)
                groups.append((self._head(time), begin, len(before)))
            shown = self._plain(groups, before, after)
        else:
            outputs.add_updates(self._selected(_updates(changes), made))
        rows = tuple(outputs.advance(changes.frontier, shown))
        return ShownRows(rows, outputs.frontier, outputs.ended)

    def _reduced(self, rows: Sequence[RowValues]) -> Sequence[RowValues]:
        return rows if self._columns is None else self._columns.rows(rows)

    def _outputs(self, as_of: Timestamp, up_to: Timestamp | None = None) -> Outputs:
        plan = self._plan
        return Outputs(plan.shape, OutputBounds(as_of, up_to), plan.dialect)

    def _selected(self, updates: Iterator[Update], made: ShownBytes) -> list[Update]:
        return list(updates) if self._selection is None else self._selection.apply(updates, made)

    def _head(self, time: Timestamp) -> RowValues:
        return (time, False) if self._plan.shape.progress else (time,)


@contextmanager
def _refusing_deep_json(frontier: Frontier) -> Iterator[None]:
    """Raise ``UnreadableRow`` for rows that can be decoded but not compared."""
    try:
        yield
    except RecursionError:
        raise UnreadableRow(
            f"JSON in a row below {frontier} is nested too deeply for rows to be compared. Leave its column "
            "out of the statement"
        ) from None


def _updates(changes: TableChanges) -> Iterator[Update]:
    for time, pairs in zip(changes.times, changes.pairs, strict=True):
        for before, after in pairs:
            if before is not None:
                yield Update(time, -1, before)
            if after is not None:
                yield Update(time, 1, after)

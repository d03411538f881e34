"""The shape of a subscription's rows: their columns, and where each stands in a relation's row.

| mode | columns, in their order |
|---|---|
| diffs, WITHIN TIMESTAMP ORDER BY | mz_timestamp, [mz_progressed], mz_diff, the relation's |
| ENVELOPE UPSERT | mz_timestamp, [mz_progressed], mz_state, KEY's in the order of its list, the others |
| ENVELOPE DEBEZIUM | the same, but for the others c first every ``before_c``, then every ``after_c`` |

Source: Materialize ``src/sql/src/plan/statement/dml.rs`` (``describe_subscribe``, ``plan_subscribe``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tidegate.rows.types import SqlType
from tidegate.subscribe.query.scope import Scope
from tidegate.subscribe.query.typed_operands import require_order
from tidegate.subscribe.statement.expression import ColumnReference, Constant
from tidegate.subscribe.statement.faults import StatementFault, invalid_order_by
from tidegate.subscribe.statement.statement import OutputClause, OutputMode, SortItem
from tidegate.subscribe.updates.value_order import ValueOrder

TIMESTAMP_COLUMN, PROGRESSED_COLUMN = "mz_timestamp", "mz_progressed"
DIFF_COLUMN, STATE_COLUMN = "mz_diff", "mz_state"
#: The position of mz_diff among the columns of a relation.
DIFF_POSITION: Final = -1
_KEYED: Final = frozenset({OutputMode.UPSERT, OutputMode.DEBEZIUM})


@dataclass(frozen=True, slots=True)
class RowOrder:
    """One column that rows of a timestamp are sorted by; ``DIFF_POSITION`` is mz_diff.

    ``type`` is its SQL type, ``None`` if that is not known.
    """

    position: int
    order: ValueOrder
    type: SqlType | None = None


@dataclass(frozen=True, slots=True)
class OutputShape:
    """The form of a subscription's rows.

    Attributes:
        columns: the names of the relation's or query's columns.
        mode: how updates are shown.
        key: positions of the KEY columns, in the order of their list.
        rest: positions of all other columns.
        order_by: what rows of one timestamp are sorted by.
        progress: whether progress rows are among the rows.
    """

    columns: tuple[str, ...]
    mode: OutputMode
    key: tuple[int, ...] = ()
    rest: tuple[int, ...] = ()
    order_by: tuple[RowOrder, ...] = ()
    progress: bool = False

    @property
    def header(self) -> tuple[str, ...]:
        """The names of the columns of every row, progress rows included."""
        first = (TIMESTAMP_COLUMN, PROGRESSED_COLUMN) if self.progress else (TIMESTAMP_COLUMN,)
        if self.mode not in _KEYED:
            return (*first, DIFF_COLUMN, *self.columns)
        key, rest = ([self.columns[at] for at in positions] for positions in (self.key, self.rest))
        if self.mode is OutputMode.UPSERT:
            return (*first, STATE_COLUMN, *key, *rest)
        before, after = [f"before_{name}" for name in rest], [f"after_{name}" for name in rest]
        return (*first, STATE_COLUMN, *key, *before, *after)


def shape_of(
    columns: tuple[str, ...],
    output: OutputClause,
    qualifiers: tuple[tuple[str, ...], ...] = (),
    types: tuple[SqlType | None, ...] = (),
    *,
    progress: bool = False,
) -> OutputShape:
    """Return the shape that an output clause has for these columns, whose ``types`` may not be known.

    Raises ``SubscribeStatementError`` for columns that do not exist, are ambiguous or stand in KEY twice, and
    for items of ORDER BY that are no columns, or whose type has no order.
    """
    key = _key(columns, output)
    return OutputShape(
        columns=columns,
        mode=output.mode,
        key=key,
        rest=tuple(at for at in range(len(columns)) if at not in key),
        order_by=tuple(_row_order(columns, qualifiers, types, item) for item in output.order_by),
        progress=progress,
    )


def _key(columns: tuple[str, ...], output: OutputClause) -> tuple[int, ...]:
    scope = Scope(columns)
    positions: list[int] = []
    for column in output.key:
        at = scope.position(column)
        if at in positions:
            raise StatementFault.DUPLICATE_KEY.error(
                f'duplicate column "{column.parts[-1]}" in KEY',
                column.position,
                "list each KEY column at most once",
            )
        positions.append(at)
    if not positions and output.mode in _KEYED:
        raise StatementFault.INVALID_KEY.error(
            f"invalid keys in SUBSCRIBE ENVELOPE {output.mode.name} (KEY (..))",
            output.position,
            "All keys must be columns on the underlying relation.",
        )
    return tuple(positions)


def _row_order(
    columns: tuple[str, ...],
    qualifiers: tuple[tuple[str, ...], ...],
    types: tuple[SqlType | None, ...],
    item: SortItem,
) -> RowOrder:
    at = _sorted_position(columns, qualifiers, item)
    sql_type = types[at] if types and at != DIFF_POSITION else None
    require_order(sql_type, item.position)
    return RowOrder(at, item.order, sql_type)


def _sorted_position(
    columns: tuple[str, ...], qualifiers: tuple[tuple[str, ...], ...], item: SortItem
) -> int:
    """Return the position of the column that an item names: by its name, as ``mz_diff``, or by a number.

    The number 1 means mz_diff, 2 the first column.
    """
    match item.target:
        case ColumnReference() as column:
            unqualified = (DIFF_COLUMN, *columns)
            scope = Scope(columns if len(column.parts) > 1 else unqualified, qualifiers)
            return scope.position(column) - (len(column.parts) == 1)
        case Constant(value=int() as number) if not isinstance(number, bool):
            if not 1 <= number <= len(columns) + 1:
                raise StatementFault.POSITION_OUT_OF_RANGE.error(
                    f"column reference {number} in ORDER BY clause is out of range (1 - {len(columns) + 1})",
                    item.position,
                )
            return number - 2
    raise invalid_order_by(item.position)

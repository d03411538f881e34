"""``SELECT ... FROM t WHERE ...`` over updates: each is filtered and cut to the query's columns by itself."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import total_ordering
from typing import Any, Final

from tidegate.subscribe.query.evaluation import compile_expression, is_true
from tidegate.subscribe.query.scope import Scope
from tidegate.subscribe.query.three_valued import Evaluate
from tidegate.subscribe.query.top_rows import RankedUpdate, TopRows
from tidegate.subscribe.statement.expression import ColumnReference, Constant, Expression, Operation
from tidegate.subscribe.statement.faults import StatementFault
from tidegate.subscribe.statement.statement import SelectItem, SelectQuery, SortItem
from tidegate.subscribe.updates.relation import Relation
from tidegate.subscribe.updates.update import RowValues, Update
from tidegate.subscribe.updates.value_order import SortKey, ValueOrder, values_key

#: PostgreSQL's own bound. A table with more columns can still be shown whole.
_MOST_COLUMNS: Final = 1_664


@total_ordering
class _Downward:
    """A sort key that sorts the other way round."""

    __slots__ = ("key",)

    def __init__(self, key: SortKey) -> None:
        self.key = key

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Downward) and self.key == other.key

    def __lt__(self, other: _Downward) -> bool:
        return other.key < self.key

    def __hash__(self) -> int:
        return hash(self.key)


@dataclass(frozen=True, slots=True)
class _Sort:
    """One item of ORDER BY: over the relation's columns, or over the query's own."""

    evaluate: Evaluate
    over_output: bool
    order: ValueOrder

    def key(self, row: RowValues, shown: RowValues) -> Any:
        key = self.order.key(self.evaluate(shown if self.over_output else row))
        return _Downward(key) if self.order.descending else key


class Selection:
    """A query over one relation, ready to be applied. It has state only where it has a LIMIT or OFFSET.

    Attributes:
        columns: the names of its columns.
        sources: the relation's column that each of them is; ``None`` for an expression.
        stateful: whether it has to see the whole relation: it cannot be resumed without a snapshot.
    """

    __slots__ = ("_items", "_sorts", "_top", "_where", "columns", "sources", "stateful")

    def __init__(self, query: SelectQuery, relation: Relation) -> None:
        """Raises ``SubscribeStatementError`` for columns and functions that do not exist."""
        alias = query.source.alias
        qualifiers = (
            [(alias,)] if alias else [query.source.parts[at:] for at in range(len(query.source.parts))]
        )
        scope = Scope(relation.columns, tuple(qualifiers))
        self.columns, self._items = _items(query.items, scope)
        self.sources = _sources(query.items, scope)
        self._where = None if query.where is None else compile_expression(query.where, scope)
        self.stateful = query.limit is not None or query.offset > 0
        self._sorts = [_sort(item, scope, Scope(self.columns)) for item in query.order_by]
        self._top = TopRows(query.limit, query.offset) if self.stateful else None

    def apply(self, updates: Iterable[Update]) -> list[Update]:
        """Return the updates of the query.

        All updates of a timestamp come together, in the order of timestamps.

        Raises ``EvaluationError`` where an expression has no value for a row.
        """
        where = self._where
        passed = (each for each in updates if where is None or is_true(where(each.row)))
        if self._top is None:
            return [each._replace(row=self._shown(each.row)) for each in passed]
        return self._top.apply(map(self._ranked, passed))

    def _shown(self, row: RowValues) -> RowValues:
        return tuple(item(row) for item in self._items)

    def _ranked(self, update: Update) -> RankedUpdate:
        shown = self._shown(update.row)
        rank = (*(sort.key(update.row, shown) for sort in self._sorts), values_key(shown))
        return RankedUpdate(rank, update._replace(row=shown))


def _items(items: Iterable[SelectItem], scope: Scope) -> tuple[tuple[str, ...], list[Evaluate]]:
    names: list[str] = []
    functions: list[Evaluate] = []
    most = max(_MOST_COLUMNS, len(scope.columns))
    for item in items:
        if item.expression is None:
            names += scope.columns
            functions += map(_column, range(len(scope.columns)))
        else:
            names.append(item.name or _name_of(item.expression))
            functions.append(compile_expression(item.expression, scope))
        if len(names) > most:
            raise StatementFault.TOO_MANY_COLUMNS.error(f"a query has up to {most:,} columns")
    return tuple(names), functions


def _sources(items: Iterable[SelectItem], scope: Scope) -> tuple[str | None, ...]:
    sources: list[str | None] = []
    for item in items:
        if item.expression is None:
            sources += scope.columns
        else:
            found = item.expression
            sources.append(found.parts[-1] if isinstance(found, ColumnReference) else None)
    return tuple(sources)


def _column(at: int) -> Evaluate:
    return lambda row: row[at]


def _name_of(expression: Expression) -> str:
    """Return the name of a column without AS, as PostgreSQL gives it."""
    match expression:
        case ColumnReference():
            return expression.parts[-1]
        case Operation() if expression.operator.isidentifier() and expression.operator not in _UNNAMED:
            return expression.operator
    return "?column?"


_UNNAMED = frozenset({"and", "or", "not", "in", "like", "ilike", "neg"})


def _sort(item: SortItem, scope: Scope, output: Scope) -> _Sort:
    """Read an item of ORDER BY.

    A number is a position of the output, a plain name one of its columns, else one of the relation's.
    """
    target = item.target
    if isinstance(target, Constant) and type(target.value) is int:
        count = len(output.columns)
        if not 1 <= target.value <= count:
            raise StatementFault.POSITION_OUT_OF_RANGE.error(
                f"column reference {target.value} in ORDER BY clause is out of range (1 - {count})",
                item.position,
            )
        return _Sort(_column(target.value - 1), True, item.order)
    over_output = (
        isinstance(target, ColumnReference) and len(target.parts) == 1 and target.parts[0] in output.columns
    )
    return _Sort(compile_expression(target, output if over_output else scope), over_output, item.order)

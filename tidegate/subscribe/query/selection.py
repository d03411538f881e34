"""``SELECT ... FROM t WHERE ...`` over updates: each is filtered and cut to the query's columns by itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import total_ordering
from itertools import islice
from operator import itemgetter
from typing import Any, Final, NamedTuple

from tidegate.subscribe.query.column_values import Read, order_reader
from tidegate.subscribe.query.evaluation import compile_expression, compiled, is_true, operations_in
from tidegate.subscribe.query.expression_types import Compiled
from tidegate.subscribe.query.query_work import LETTERS, NO_BOUND, PAUSE_STEPS, ROW_STEPS, RowWork
from tidegate.subscribe.query.scope import Scope
from tidegate.subscribe.query.shown_bytes import RowBytes, ShownBytes
from tidegate.subscribe.query.three_valued import Evaluate
from tidegate.subscribe.query.top_rows import RankedUpdate, TopRows
from tidegate.subscribe.query.typed_operands import require_order
from tidegate.subscribe.statement.expression import ColumnReference, Constant, Expression, Operation
from tidegate.subscribe.statement.faults import StatementFault
from tidegate.subscribe.statement.statement import SelectItem, SelectQuery, SortItem
from tidegate.subscribe.updates.process_share import ProcessShare
from tidegate.subscribe.updates.relation import Relation
from tidegate.subscribe.updates.row_size import row_bytes, value_bytes
from tidegate.subscribe.updates.update import RowValues, Update
from tidegate.subscribe.updates.value_order import SortKey, ValueOrder, values_key

#: PostgreSQL's own bound. A table with more columns can still be shown whole.
_MOST_COLUMNS: Final = 1_664
#: The bytes that the place of a value takes in a row, and the bytes that a sort key takes beside its value.
_PLACE_BYTES: Final = 8
_KEY_BYTES: Final = 200
#: The steps that it takes to keep a row in its order.
_RANKED_STEPS: Final = 20


@total_ordering
class _Downward:
    """A sort key for descending order."""

    __slots__ = ("key",)

    def __init__(self, key: SortKey) -> None:
        self.key = key

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Downward) and self.key == other.key

    def __lt__(self, other: _Downward) -> bool:
        return other.key < self.key

    def __hash__(self) -> int:
        return hash(self.key)


class _SortedBy(NamedTuple):
    """The key that a row is sorted by, and its size.

    Attributes:
        key: what rows are compared by.
        made_bytes: the bytes that the key takes beside the row.
        copied_bytes: the bytes that the key of a JSON value takes: it has a copy of all members.
    """

    key: Any
    made_bytes: int
    copied_bytes: int


@dataclass(frozen=True, slots=True)
class _Sort:
    """One item of ORDER BY: over the relation's columns, or over the query's own."""

    evaluate: Evaluate
    over_output: bool
    order: ValueOrder
    is_column: bool
    read: Read | None

    def key(self, row: RowValues, shown: RowValues, work: RowWork) -> _SortedBy:
        """Return the key that a row is sorted by. Raises ``LimitExceeded`` if ``work`` does."""
        value = self.evaluate(shown if self.over_output else row)
        work.look_at(value)
        by = value
        if self.read is not None and value is not None:
            if isinstance(value, str):
                work.spend(len(value) // LETTERS)
            by = self.read(value)
        key = self.order.key(by)
        made = 0 if self.is_column and by is value else value_bytes(by)
        copied = value_bytes(value) if isinstance(value, dict | list | tuple) else 0
        return _SortedBy(_Downward(key) if self.order.descending else key, _KEY_BYTES + made, copied)


class Selection:
    """A query over one relation, ready to be applied. It has state only if it has a LIMIT or OFFSET.

    Attributes:
        columns: the names of its columns.
        types: their SQL types; ``None`` for a type that is not known.
        sources: for each of them the name of the relation's column that it shows; ``None`` for any other
            expression.
        stateful: whether it has to see the whole relation. Then it cannot be resumed without a snapshot.
    """

    __slots__ = (
        *("_grows", "_items", "_share", "_sorts", "_picks", "_steps", "_top", "_where", "_work"),
        *("columns", "sources", "stateful", "types"),
    )

    def __init__(self, query: SelectQuery, relation: Relation, share: ProcessShare | None = None) -> None:
        """``share`` bounds the memory that this and other queries take together, and makes this query pause.

        Raises ``SubscribeStatementError`` for columns and functions that do not exist.
        """
        alias = query.source.alias
        qualifiers = (
            [(alias,)] if alias else [query.source.parts[at:] for at in range(len(query.source.parts))]
        )
        scope = Scope(relation.columns, tuple(qualifiers), relation.known_types)
        self._share = share
        self._work = work = RowWork(NO_BOUND if share is None else ROW_STEPS)
        self.columns, items = _items(query.items, scope, work)
        self._items = [each.evaluate for each in items]
        self.types = tuple([each.type for each in items])
        self.sources = _sources(query.items, scope)
        # A row that has each column at most once, and nothing else, is at most as long as the table's row.
        self._grows = None in self.sources or len({*self.sources}) < len(self.sources)
        self._where = None if query.where is None else compile_expression(query.where, scope, work)
        self.stateful = query.limit is not None or query.offset > 0
        self._sorts = [
            _sort(item, scope, Scope(self.columns, types=self.types), work, ranked=self.stateful)
            for item in query.order_by
        ]
        expressions = _expressions(query)
        operations = sum(map(operations_in, expressions))
        #: The steps that a row takes, beside those of operations on texts.
        self._steps = 1 + operations + len(self._items) // 8 + _RANKED_STEPS * self.stateful
        #: A query that only picks columns is not counted. It pauses after so many rows; ``None`` for others.
        self._picks = None if operations else max(PAUSE_STEPS // self._steps, 1)
        self._top = TopRows(query.limit, query.offset, share) if self.stateful else None

    def apply(self, updates: Iterable[Update], shown: ShownBytes | None = None) -> list[Update]:
        """Return the updates of the query.

        The caller gives all updates of a timestamp together, in the order of timestamps. ``shown`` counts the
        bytes of the query's rows if these can be longer than the table's rows, and bounds them. By default
        they have the bound of a batch.

        Raises ``EvaluationError`` if an expression has no value for a row, ``LimitExceeded`` if a text, a row
        or all rows together are too large, and ``PieceFull`` if ``shown`` raises it.
        """
        if self._top is None and not self._grows and self._picks is not None:
            return self._picked(iter(updates), self._picks)
        shown = ShownBytes() if shown is None else shown
        passed = self._passed(updates, shown)
        if self._top is not None:
            return self._top.apply(map(self._ranked, passed), shown)
        if not self._grows:
            return [each._replace(row=self._shown(each.row)) for each in passed]
        made: list[Update] = []
        for update in passed:
            taken = RowBytes(update.row)
            row = self._counted(update.row, taken)
            shown.add(taken.taken, row_bytes(update.row))
            made.append(update._replace(row=row))
        return made

    def _picked(self, updates: Iterator[Update], at_once: int) -> list[Update]:
        where, made = self._where, list[Update]()
        while some := list(islice(updates, at_once)):
            made += [
                each._replace(row=self._shown(each.row))
                for each in some
                if where is None or is_true(where(each.row))
            ]
            if self._share is not None:
                self._share.pause()
        return made

    def _passed(self, updates: Iterable[Update], shown: ShownBytes) -> Iterator[Update]:
        """Yield the updates that pass WHERE. Count the steps of each, and pause after every
        ``PAUSE_STEPS``."""
        where, work, share, since = self._where, self._work, self._share, 0
        for update in updates:
            work.taken = self._steps
            if where is None or is_true(where(update.row)):
                yield update
            if share is None:
                continue
            shown.spend(work.taken)
            since += work.taken
            if since >= PAUSE_STEPS:
                share.pause()
                since = 0

    def _shown(self, row: RowValues) -> RowValues:
        return tuple(item(row) for item in self._items)

    def _counted(self, row: RowValues, taken: RowBytes) -> RowValues:
        """Return a row of the query, counted value by value, so that no row is made that is far too long."""
        values: list[Any] = []
        for item in self._items:
            value = item(row)
            values.append(value)
            taken.add(_PLACE_BYTES + value_bytes(value))
        return tuple(values)

    def _ranked(self, update: Update) -> RankedUpdate:
        row = update.row
        taken = RowBytes(row)
        shown = self._counted(row, taken)
        rank: list[Any] = []
        copied = 0
        for sort in self._sorts:
            key, made_bytes, copied_bytes = sort.key(row, shown, self._work)
            rank.append(key)
            taken.add(made_bytes)
            copied += copied_bytes
        rank.append(values_key(shown))
        return RankedUpdate(tuple(rank), update._replace(row=shown), taken.taken + copied, row_bytes(row))


def _expressions(query: SelectQuery) -> list[Expression]:
    """Return all expressions of a query."""
    shown = [item.expression for item in query.items if item.expression is not None]
    return [
        *shown,
        *(item.target for item in query.order_by),
        *([] if query.where is None else [query.where]),
    ]


def _items(
    items: Iterable[SelectItem], scope: Scope, work: RowWork
) -> tuple[tuple[str, ...], list[Compiled]]:
    """Return the names of a query's columns, and the functions that give their values.

    A column of the table is shown as the feed gives it.
    """
    names: list[str] = []
    functions: list[Compiled] = []
    most = max(_MOST_COLUMNS, len(scope.columns))
    for item in items:
        if item.expression is None:
            names += scope.columns
            functions += [Compiled(_column(at), scope.type_at(at)) for at in range(len(scope.columns))]
        else:
            names.append(item.name or _name_of(item.expression))
            functions.append(_shown_as(item.expression, scope, work))
        if len(names) > most:
            raise StatementFault.TOO_MANY_COLUMNS.error(f"a query has up to {most:,} columns")
    return tuple(names), functions


def _shown_as(expression: Expression, scope: Scope, work: RowWork) -> Compiled:
    if isinstance(expression, ColumnReference):
        at = scope.position(expression)
        return Compiled(_column(at), scope.type_at(at))
    return compiled(expression, scope, work)


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
    return itemgetter(at)


def _name_of(expression: Expression) -> str:
    """Return the name of a column without AS, as PostgreSQL gives it."""
    match expression:
        case ColumnReference():
            return expression.parts[-1]
        case Operation() if expression.operator.isidentifier() and expression.operator not in _UNNAMED:
            return expression.operator
    return "?column?"


_UNNAMED = frozenset({"and", "or", "not", "in", "like", "ilike", "neg"})


def _sort(item: SortItem, scope: Scope, output: Scope, work: RowWork, *, ranked: bool) -> _Sort:
    """Read an item of ORDER BY.

    A number is a position in the output. A plain name is a column of the output if there is one of that name,
    else a column of the relation. Rows are ``ranked`` only for LIMIT or OFFSET. Otherwise ORDER BY has no
    effect, and may have types without an order.
    """
    target = item.target
    if isinstance(target, Constant) and type(target.value) is int:
        count = len(output.columns)
        if not 1 <= target.value <= count:
            raise StatementFault.POSITION_OUT_OF_RANGE.error(
                f"column reference {target.value} in ORDER BY clause is out of range (1 - {count})",
                item.position,
            )
        at = target.value - 1
        if ranked:
            require_order(output.type_at(at), item.position)
        return _Sort(_column(at), True, item.order, True, order_reader(output.type_at(at)))
    over_output = (
        isinstance(target, ColumnReference) and len(target.parts) == 1 and target.parts[0] in output.columns
    )
    by = _shown_as(target, output if over_output else scope, work)
    if ranked:
        require_order(by.type, item.position)
    return _Sort(
        by.evaluate,
        over_output,
        item.order,
        isinstance(target, ColumnReference),
        order_reader(by.type),
    )

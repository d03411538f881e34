"""A SUBSCRIBE statement, parsed; it knows no tables yet. `plan` says what it means for given tables.

The parts have their 0-based positions in the text, -1 if they have none. Parts with different positions may
be equal.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from tidegate.subscribe.statement.expression import ColumnReference, Expression
from tidegate.subscribe.updates.value_order import ValueOrder


class OutputMode(enum.Enum):
    """The form in which updates are shown. The value is its name in keyword arguments and tokens."""

    DIFFS = "diffs"
    """Every update with its diff."""
    ORDERED = "within_timestamp_order_by"
    """The same, sorted within each timestamp."""
    UPSERT = "upsert"
    """Per timestamp and key one row: the new values, or a deletion."""
    DEBEZIUM = "debezium"
    """Per timestamp and key one row: the values before and after."""


@dataclass(frozen=True, slots=True)
class SortItem:
    """One item of an ORDER BY; ``position`` is its offset in the statement, -1 where it has none."""

    target: Expression
    order: ValueOrder
    position: int = field(default=-1, compare=False)


@dataclass(frozen=True, slots=True)
class OutputClause:
    """``ENVELOPE ... (KEY (key))``, ``WITHIN TIMESTAMP ORDER BY order_by``, or neither."""

    mode: OutputMode = OutputMode.DIFFS
    key: tuple[ColumnReference, ...] = ()
    order_by: tuple[SortItem, ...] = ()
    position: int = field(default=-1, compare=False)


@dataclass(frozen=True, slots=True)
class NamedRelation:
    """A relation by its name. If ``alias`` is not empty, it stands before names of columns instead of the
    name."""

    parts: tuple[str, ...]
    alias: str = ""
    position: int = field(default=-1, compare=False)


@dataclass(frozen=True, slots=True)
class SelectItem:
    """A column of a query: ``expression [AS name]``. Without ``expression`` it is ``*``."""

    expression: Expression | None
    name: str = ""


@dataclass(frozen=True, slots=True)
class SelectQuery:
    """``SELECT items FROM source [WHERE where] [ORDER BY order_by] [LIMIT limit] [OFFSET offset]``.

    With LIMIT or OFFSET, ORDER BY decides which rows are shown; without them it has no effect.
    """

    items: tuple[SelectItem, ...]
    source: NamedRelation
    where: Expression | None = None
    order_by: tuple[SortItem, ...] = ()
    limit: int | None = None
    offset: int = 0


@dataclass(frozen=True, slots=True)
class BoundClause:
    """``AS OF [AT LEAST] expression`` or ``UP TO expression``; ``text`` is the expression as it was
    written."""

    expression: Expression
    text: str
    at_least: bool = False
    position: int = field(default=-1, compare=False)


@dataclass(frozen=True, slots=True)
class SubscribeStatement:
    """A statement ``SUBSCRIBE [TO] subject [output] [WITH (...)] [AS OF ...] [UP TO ...]``."""

    subject: NamedRelation | SelectQuery
    output: OutputClause = OutputClause()
    progress: bool = False
    snapshot: bool = True
    as_of: BoundClause | None = None
    up_to: BoundClause | None = None

    @property
    def source(self) -> NamedRelation:
        """The relation whose rows it reads."""
        return self.subject.source if isinstance(self.subject, SelectQuery) else self.subject

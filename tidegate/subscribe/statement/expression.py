"""Expressions over one row, as a statement writes them. `tidegate.subscribe.query` gives them values.

Each expression has its 0-based position in the statement, -1 if it has none. Expressions with different
positions may be equal.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Constant:
    """A number, a text, TRUE, FALSE or NULL. A number with a point is a ``Decimal``, exact to its last
    digit."""

    value: int | Decimal | str | bool | None
    position: int = field(default=-1, compare=False)


@dataclass(frozen=True, slots=True)
class ColumnReference:
    """A column by its name, which may have its table's name before it: ``("a",)`` or ``("t", "a")``."""

    parts: tuple[str, ...]
    position: int = field(default=-1, compare=False)


@dataclass(frozen=True, slots=True)
class Operation:
    """An operator or function with its operands, which may be none.

    ``operator`` is in lower case: ``and``, ``+``, ``is null``, ``coalesce``, ``cast bigint``. Unary minus
    is ``neg``.
    """

    operator: str
    operands: tuple[Expression, ...]
    position: int = field(default=-1, compare=False)


Expression: TypeAlias = Constant | ColumnReference | Operation

"""The columns that names in an expression mean."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from tidegate.rows.types import SqlType
from tidegate.subscribe.statement.expression import ColumnReference, Constant, Expression, Operation
from tidegate.subscribe.statement.faults import StatementFault


@dataclass(frozen=True, slots=True)
class Scope:
    """The columns that an expression can name.

    Attributes:
        columns: their names.
        qualifiers: the names that may stand before them.
        types: their SQL types; empty where they are not known.
    """

    columns: tuple[str, ...]
    qualifiers: tuple[tuple[str, ...], ...] = ()
    types: tuple[SqlType | None, ...] = ()
    _places: dict[str, list[int]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        places: dict[str, list[int]] = {}
        for at, column in enumerate(self.columns):
            places.setdefault(column, []).append(at)
        object.__setattr__(self, "_places", places)

    def type_at(self, position: int) -> SqlType | None:
        """Return the type of a column; ``None`` where it is not known."""
        return self.types[position] if self.types else None

    def position(self, reference: ColumnReference) -> int:
        """Return where the column stands in a row.

        Raises ``SubscribeStatementError`` if no column has the name, and if several have it.
        """
        *qualifier, name = reference.parts
        found = self._places.get(name, ())
        shown = ".".join(reference.parts)
        if not found or (qualifier and tuple(qualifier) not in self.qualifiers):
            raise StatementFault.UNKNOWN_COLUMN.error(f'column "{shown}" does not exist', reference.position)
        if len(found) > 1:
            raise StatementFault.AMBIGUOUS_COLUMN.error(
                f'column reference "{shown}" is ambiguous', reference.position
            )
        return found[0]


def references(expression: Expression) -> Iterator[ColumnReference]:
    """Yield the columns that an expression names, in their order."""
    match expression:
        case ColumnReference():
            yield expression
        case Operation():
            for operand in expression.operands:
                yield from references(operand)
        case Constant():
            return

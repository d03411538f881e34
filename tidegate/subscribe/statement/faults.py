"""The faults of statements: each has a code for programs, a SQLSTATE for SQL clients, and one text.

The texts are Materialize's (``src/sql/src/plan/statement/dml.rs``, ``src/sql-parser/src/parser.rs``), because
clients know them. Match codes, not texts: Materialize has changed its texts.
"""

from __future__ import annotations

import enum

from tidegate.errors import SubscribeStatementError, brief


class StatementFault(enum.Enum):
    """One kind of fault: (code, SQLSTATE)."""

    SYNTAX = ("syntax_error", "42601")
    CONFLICTING_MODIFIERS = ("conflicting_modifiers", "42601")
    UNKNOWN_OPTION = ("unknown_option", "42601")
    REPEATED_OPTION = ("repeated_option", "42601")
    INVALID_OPTION = ("invalid_option", "22023")
    RENAMED = ("renamed_statement", "42601")
    UNKNOWN_COLUMN = ("unknown_column", "42703")
    AMBIGUOUS_COLUMN = ("ambiguous_column", "42702")
    UNKNOWN_RELATION = ("unknown_relation", "42P01")
    UNKNOWN_FUNCTION = ("unknown_function", "42883")
    INVALID_CONSTANT = ("invalid_constant", "22P02")
    UNORDERED_TYPE = ("unordered_type", "0A000")
    NOT_SUBSCRIBABLE = ("not_subscribable", "42809")
    INVALID_ORDER_BY = ("invalid_order_by", "42P10")
    POSITION_OUT_OF_RANGE = ("position_out_of_range", "42P10")
    INVALID_KEY = ("invalid_key", "42P10")
    DUPLICATE_KEY = ("duplicate_key", "42701")
    INVALID_BOUND = ("invalid_bound", "22023")
    BOUNDS_CROSSED = ("bounds_crossed", "22000")
    NOT_ALONE = ("not_the_only_read", "25001")
    SWITCHED_OFF = ("output_switched_off", "0A000")
    TOO_LARGE = ("statement_too_large", "54001")
    TOO_MANY_COLUMNS = ("too_many_columns", "54011")

    def error(self, message: str, position: int = -1, hint: str = "") -> SubscribeStatementError:
        """Make the error of this kind; ``position`` is the 0-based offset of the fault in the statement.

        Long messages and hints are shortened, because names in a statement may be of any length.
        """
        code, sqlstate = self.value
        return SubscribeStatementError(brief(message), code, sqlstate, position, brief(hint))


def invalid_order_by(position: int) -> SubscribeStatementError:
    """Make the error for an item of WITHIN TIMESTAMP ORDER BY that is no column."""
    return StatementFault.INVALID_ORDER_BY.error(
        "invalid ORDER BY in SUBSCRIBE WITHIN TIMESTAMP ORDER BY",
        position,
        "its items must be columns of the relation or mz_diff, or their positions",
    )

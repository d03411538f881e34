"""Rows as a subscriber receives them, decoded by the names of their columns.

The order of columns depends on mode, options and version, so columns are found by their names. Only
``mz_progressed`` says whether a row is a progress row: a data row can be NULL everywhere else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from tidegate.errors import ProgressMissing, ProtocolError
from tidegate.hlc import Timestamp, parse_decimal
from tidegate.subscribe.outputs.keyed_rows import DELETE, INSERT, KEY_VIOLATION, UPSERT
from tidegate.subscribe.outputs.shape import (
    DIFF_COLUMN,
    PROGRESSED_COLUMN,
    STATE_COLUMN,
    TIMESTAMP_COLUMN,
)
from tidegate.subscribe.updates.update import RowValues

_TRUTHS: Final = {True: True, False: False, "t": True, "f": False, "true": True, "false": False}
_STATES: Final = frozenset({INSERT, UPSERT, DELETE, KEY_VIOLATION})
_OWN: Final = frozenset({TIMESTAMP_COLUMN, PROGRESSED_COLUMN, DIFF_COLUMN, STATE_COLUMN})


@dataclass(frozen=True, slots=True)
class ReceivedRow:
    """One row.

    Attributes:
        time: of a data row that of its updates; of a progress row the frontier.
        progressed: whether it is a progress row; then the rest is empty.
        diff: with diffs, the diff; 0 with an envelope.
        state: with an envelope, the state; empty with diffs.
        values: of the other columns, in the order in which they are received.
    """

    time: Timestamp
    progressed: bool
    diff: int = 0
    state: str = ""
    values: RowValues = ()


class ReceivedColumns:
    """Decodes rows whose columns have these names."""

    __slots__ = ("_diff", "_progressed", "_state", "_time", "_values", "_width", "names")

    def __init__(self, header: Sequence[str]) -> None:
        """Raises ``ProgressMissing`` for a subscription without PROGRESS, ``ProtocolError`` for no
        subscription."""
        self._width = len(header)
        own = _own_columns(header)
        if PROGRESSED_COLUMN not in own:
            raise ProgressMissing(
                "PROGRESS missing: subscribe WITH (PROGRESS), nothing is complete without it"
            )
        if TIMESTAMP_COLUMN not in own or (DIFF_COLUMN in own) == (STATE_COLUMN in own):
            raise ProtocolError(f"the columns {', '.join(header)} are not those of a SUBSCRIBE")
        self._time, self._progressed = own.index(TIMESTAMP_COLUMN), own.index(PROGRESSED_COLUMN)
        self._diff = own.index(DIFF_COLUMN) if DIFF_COLUMN in own else None
        self._state = own.index(STATE_COLUMN) if STATE_COLUMN in own else None
        self._values = len(own)
        #: The names of a row's values.
        self.names = tuple(header[len(own) :])

    def decode(self, row: Sequence[Any]) -> ReceivedRow:
        """Decode a row. Raises ``ProtocolError`` for one that no SUBSCRIBE gives."""
        if len(row) != self._width:
            raise ProtocolError(f"a row of {len(row)} columns, where {self._width} were announced")
        time, progressed = _time(row[self._time]), _truth(row[self._progressed])
        if progressed:
            return ReceivedRow(time, True)
        values = tuple(row[self._values :])
        if self._diff is not None:
            return ReceivedRow(time, False, diff=_diff(row[self._diff]), values=values)
        return ReceivedRow(time, False, state=_state(row[self._state or 0]), values=values)


def _own_columns(header: Sequence[str]) -> list[str]:
    """Return SUBSCRIBE's own columns, which come first.

    A relation may have columns of the same names behind them.
    """
    own: list[str] = []
    for name in header:
        marks = {DIFF_COLUMN, STATE_COLUMN}
        if name not in _OWN or name in own or (name in marks and marks & {*own}):
            break
        own.append(name)
    return own


def _time(value: Any) -> Timestamp:
    """Read a timestamp: an HLC decimal's text, or a plain number, as Materialize has it, which is the logical
    part alone."""
    match value:
        case Timestamp():
            return value
        case bool():
            pass
        case int() if value >= 0:
            return Timestamp(0, value)
        case str() if value.isascii() and value.isdigit():
            return Timestamp(0, int(value))
        case str():
            try:
                return parse_decimal(value)
            except ValueError:
                pass
    raise ProtocolError(f"{TIMESTAMP_COLUMN} is no timestamp: {value!r:.60}")


def _truth(value: Any) -> bool:
    known = _TRUTHS.get(value) if isinstance(value, bool | str) else None
    if known is None:
        raise ProtocolError(f"{PROGRESSED_COLUMN} is no truth value: {value!r:.60}")
    return known


def _diff(value: Any) -> int:
    if isinstance(value, str) and value.removeprefix("-").isdecimal():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or not value:
        raise ProtocolError(f"{DIFF_COLUMN} is no number other than zero: {value!r:.60}")
    return value


def _state(value: Any) -> str:
    if value not in _STATES:
        raise ProtocolError(f"unknown {STATE_COLUMN}: {value!r:.60}")
    return str(value)

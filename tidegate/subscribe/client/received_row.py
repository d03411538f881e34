"""Rows as a subscriber receives them, decoded by the names of their columns.

The order of columns depends on mode, options and version, so columns are found by their names. A consumer may
put a query of its own around SUBSCRIBE. Then SUBSCRIBE's columns may stand anywhere, but none of their names
may stand twice. Only ``mz_progressed`` says whether a row is a progress row: a data row can be NULL in all
other columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
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
#: Plain numbers are milliseconds as Materialize counts them, in 64 bits.
PLAIN_NUMBER_MAX: Final = 2**64 - 1
_DIGITS_MAX: Final = len(str(PLAIN_NUMBER_MAX))
_OWN: Final = frozenset({TIMESTAMP_COLUMN, PROGRESSED_COLUMN, DIFF_COLUMN, STATE_COLUMN})


@dataclass(frozen=True, slots=True)
class ReceivedRow:
    """One row.

    Attributes:
        time: the time of a data row's updates; the frontier of a progress row.
        progressed: whether it is a progress row; then the following attributes are empty.
        diff: with diffs, the diff; 0 with an envelope.
        state: with an envelope, the state; empty with diffs.
        values: the values of the other columns, in the order in which they are received.
    """

    time: Timestamp
    progressed: bool
    diff: int = 0
    state: str = ""
    values: RowValues = ()


class ReceivedColumns:
    """Decodes rows whose columns have the names of a header."""

    __slots__ = ("_diff", "_progressed", "_state", "_time", "_values", "_width", "names")

    def __init__(self, header: Sequence[str]) -> None:
        """Raises ``ProgressMissing`` for a subscription without PROGRESS, and ``ProtocolError`` for columns
        that are not those of a SUBSCRIBE."""
        self._width = len(header)
        own = _own_columns(header)
        places = {name: header.index(name) for name in own}
        if PROGRESSED_COLUMN not in own:
            raise ProgressMissing(
                "PROGRESS missing: subscribe WITH (PROGRESS), nothing is complete without it"
            )
        if TIMESTAMP_COLUMN not in own or (DIFF_COLUMN in own) == (STATE_COLUMN in own):
            raise ProtocolError(f"the columns {', '.join(header)} are not those of a SUBSCRIBE")
        self._time, self._progressed = places[TIMESTAMP_COLUMN], places[PROGRESSED_COLUMN]
        self._diff, self._state = places.get(DIFF_COLUMN), places.get(STATE_COLUMN)
        self._values = [place for place in range(self._width) if place not in places.values()]
        #: The names of a row's values.
        self.names = tuple(header[place] for place in self._values)

    def decode(self, row: Sequence[Any]) -> ReceivedRow:
        """Decode a row. Raises ``ProtocolError`` for a row that no SUBSCRIBE gives."""
        if len(row) != self._width:
            raise ProtocolError(f"a row of {len(row)} columns, where {self._width} were announced")
        time, progressed = _time(row[self._time]), _truth(row[self._progressed])
        if progressed:
            return ReceivedRow(time, True)
        values = tuple([row[place] for place in self._values])
        if self._diff is not None:
            return ReceivedRow(time, False, diff=_diff(row[self._diff]), values=values)
        return ReceivedRow(time, False, state=_state(row[self._state or 0]), values=values)


def _own_columns(header: Sequence[str]) -> list[str]:
    """Return the names of SUBSCRIBE's own columns.

    A server sends these columns first, and a relation's columns after them may have the same names. If the
    header does not begin with a timestamp and a diff or state, a consumer has put its own query around
    SUBSCRIBE. Then the columns are found by their names, wherever they stand. This is not done if one of the
    names stands twice.
    """
    marks = {DIFF_COLUMN, STATE_COLUMN}
    own: list[str] = []
    for name in header:
        if name not in _OWN or name in own or (name in marks and marks & {*own}):
            break
        own.append(name)
    found = [name for name in header if name in _OWN]
    in_front = TIMESTAMP_COLUMN in own and marks & {*own}
    return own if in_front or len({*found}) < len(found) else found


def _time(value: Any) -> Timestamp:
    """Read a timestamp: an HLC decimal, or a plain number, as Materialize has it. A plain number becomes the
    logical part, with the wall time 0.

    Drivers give a ``numeric`` as its text, as an integer or as a ``Decimal``.
    """
    match value:
        case Timestamp():
            return value
        case bool():
            pass
        case int() if 0 <= value <= PLAIN_NUMBER_MAX:
            return Timestamp(0, value)
        case Decimal() if value.is_finite() and value.adjusted() < _DIGITS_MAX:
            return _time_in(f"{value:f}", value)
        case str():
            return _time_in(value, value)
    raise _no_time(value)


def _time_in(text: str, value: Any) -> Timestamp:
    if text.isascii() and text.isdigit():
        if len(text) > _DIGITS_MAX or int(text) > PLAIN_NUMBER_MAX:
            raise _no_time(value)
        return Timestamp(0, int(text))
    try:
        return parse_decimal(text)
    except ValueError:
        raise _no_time(value) from None


def _no_time(value: Any) -> ProtocolError:
    return ProtocolError(f"{TIMESTAMP_COLUMN} is no timestamp: {value!r:.60}")


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

"""Brings keys into one form, since a feed may write the key of a row and of its deletion in two ways.

For a deletion the log has the key only in the store's form: 1.50 is 1.5 there, and -0 is 0. A table whose
primary key has such columns is marked (`Relation.composite`). Its keys are reduced once, when an opening
comes in, before any code tells rows apart by the bytes of keys. Other tables need no such work.

| format | key of a record | reduced |
|---|---|---|
| JSON | ``[1.50, "1.50"]``, ``{"id": 1E+2}``, ``[-0.0]`` | ``[1.5, "1.50"]``, ``{"id": 100}``, ``[0]`` |
| Avro | a double -0.0 | 0.0; a ``decimal`` has one form for each value, as its schema has one scale |

A reduced key has the format of the feed's other keys, and is decoded like them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal
from typing import Any, Final, TypeVar

from tidegate.errors import UnreadableRow
from tidegate.subscribe.gate.feed_record import FeedRecord
from tidegate.subscribe.gate.row_gate import GateOpening
from tidegate.subscribe.updates.relation import Relation
from tidegate.subscribe.updates.row_identity import row_identity
from tidegate.subscribe.updates.update import RowValues

#: Decimals of any size, without rounding.
_EXACT: Final = Context(prec=MAX_PREC, Emin=MIN_EMIN, Emax=MAX_EMAX)
#: A number with more digits in front of its point is written with an exponent: 1E+100000 would otherwise be a
#: text of 100,001 digits.
_PLAIN_DIGITS: Final = 100
_PLAIN_NUMBERS: Final = 10**_PLAIN_DIGITS
#: A string, or what may be a number. No part of the text is tried twice, so the time is linear.
_JSON_PART: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"?|[-0-9][-+.0-9eE]*+', re.DOTALL)
_JSON_NUMBER: Final = re.compile(rb"-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][-+]?[0-9]++)?")
#: Whole numbers in their most common form, which is reduced already.
_USUAL: Final = re.compile(rb"0|-?[1-9][0-9]{0,17}")
#: What begins a JSON key. An Avro key begins with a zero byte.
_JSON: Final = (b"[", b"{")
_NEGATIVE_ZERO: Final = bytes(7) + b"\x80"
_ZERO: Final = bytes(8)
#: At most so many places of an Avro key are tried one by one: for each the record is decoded once.
_MOST_TRIED: Final = 100


def with_reduced_keys(opening: GateOpening, relation: Relation) -> GateOpening:
    """Return the opening with the keys of its rows reduced, if the relation's keys have to be.

    Raises what ``decode`` raises: an Avro key that may have a negative zero is decoded.
    """
    rows = opening.rows
    if not relation.composite or not len(rows):
        return opening
    keys = list(map(_reduced_json, rows.keys))
    for at, key in enumerate(keys):
        if _NEGATIVE_ZERO in key and not key.startswith(_JSON):
            keys[at] = _reduced_avro(opening, at)
    return opening if keys == rows.keys else replace(opening, rows=rows.with_keys(keys))


_RowT = TypeVar("_RowT", RowValues, RowValues | None)


class ReducedColumns:
    """Reduces the values of some columns of rows."""

    __slots__ = ("_positions",)

    def __init__(self, relation: Relation, columns: Collection[str]) -> None:
        self._positions = [at for at, name in enumerate(relation.columns) if name in columns]

    def rows(self, rows: Sequence[_RowT]) -> list[_RowT]:
        """Return the rows with these columns reduced; ``None`` stays ``None``."""
        return list(map(self.row, rows)) if self._positions else list(rows)

    def row(self, row: _RowT) -> _RowT:
        """Return the row with these columns reduced."""
        if not self._positions or row is None:
            return row
        values = list(row)
        for at in self._positions:
            values[at] = reduced_value(values[at])
        return tuple(values)


def reduced_value(value: Any) -> Any:
    """Return the one form of all values that are equal to a value: 1.5 for 1.50, 0 for -0.0.

    Numbers of an array are reduced too. Any other value is returned as it is.
    """
    match value:
        case Decimal():
            return _reduced_decimal(value)
        case float():
            return value + 0.0
        case bool():
            return value
        case int():
            return value if -_PLAIN_NUMBERS < value < _PLAIN_NUMBERS else _reduced_decimal(Decimal(value))
        case list():
            return [reduced_value(member) for member in value]
    return value


def _reduced_decimal(number: Decimal) -> int | Decimal:
    """Return the reduced number, as JSON decodes it: a whole number without an exponent is an ``int``."""
    if not number.is_finite():
        return number
    reduced = _normal(number)
    whole = not reduced or reduced.as_tuple().exponent >= 0  # type: ignore[operator]  # it is finite
    return int(reduced) if whole and reduced.adjusted() < _PLAIN_DIGITS else reduced


def _normal(number: Decimal) -> Decimal:
    return _EXACT.normalize(number) if number else Decimal(0)


def _reduced_json(key: bytes) -> bytes:
    """Reduce all numbers of a JSON text. Other texts, and parts that only look like numbers, stay as they
    are."""
    return _JSON_PART.sub(_reduced_part, key) if key.startswith(_JSON) else key


def _reduced_part(match: re.Match[bytes]) -> bytes:
    part = match.group()
    if _USUAL.fullmatch(part) or not _JSON_NUMBER.fullmatch(part):
        return part
    try:
        number = _normal(Decimal(part.decode()))
    except ArithmeticError:  # an exponent beyond all bounds: the decoder says so
        return part
    plain = number.adjusted() < _PLAIN_DIGITS and "E+" in str(number)
    return (format(number, "f") if plain else str(number)).encode()


def _reduced_avro(opening: GateOpening, at: int) -> bytes:
    """Return an Avro key with zeros for its negative zeros.

    The bytes of the key do not show where a number begins, so other bytes may look like a negative zero. If
    such bytes are replaced, the decoded key has other values: then they stay.
    """
    rows = opening.rows
    key, place = rows.keys[at], rows.places[at]

    def values(key: bytes) -> Any:
        return row_identity(opening.decode(place, FeedRecord(rows.offsets[at], key, rows.values[at])).key)

    was = values(key)
    if _same(values, key.replace(_NEGATIVE_ZERO, _ZERO), was):
        return key.replace(_NEGATIVE_ZERO, _ZERO)
    if key.count(_NEGATIVE_ZERO) > _MOST_TRIED:
        raise UnreadableRow(
            f"The key at offset {rows.offsets[at]} of {place} has more than {_MOST_TRIED} places that look "
            "like a negative zero, so it cannot be told apart from others. Create a feed with format='json'",
            place.topic,
            place.partition,
            rows.offsets[at],
        )
    begin = key.find(_NEGATIVE_ZERO)
    while begin >= 0:
        other = key[:begin] + _ZERO + key[begin + len(_ZERO) :]
        if _same(values, other, was):
            key = other
        begin = key.find(_NEGATIVE_ZERO, begin + 1)
    return key


def _same(values: Callable[[bytes], Any], key: bytes, was: Any) -> bool:
    try:
        return bool(values(key) == was)
    except UnreadableRow:
        return False

"""Reads the members of values that envelopes have in common, whatever the format.

Each function raises ``ValueError``, ``TypeError`` or ``KeyError`` for members that no feed can have written.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypedDict, TypeVar

from tidegate.changefeed.encoding.record import RowRecord, Value
from tidegate.changefeed.encoding.replaced import DELETE
from tidegate.changefeed.encoding.value_members import Members, ValueMembers
from tidegate.hlc import Timestamp, parse_decimal

_T = TypeVar("_T", dict[str, Any], list[Any], str)
_JSON_NAMES: Final[dict[type, str]] = {dict: "an object", list: "an array", str: "a string"}


class Stamps(TypedDict, total=False):
    """The timestamps of a row that are in its record."""

    updated: Timestamp
    mvcc_timestamp: Timestamp


def change_record(
    key: tuple[Value, ...], value: Mapping[str, Value], members: ValueMembers, letters: frozenset[str]
) -> RowRecord:
    """Return the record of a change from the members of its value.

    ``letters`` are all letters that the feed's envelope has for operations.
    """
    members.value.require(value.keys())
    row, previous, op = nullable_row(value["after"]), nullable_row(value.get("before")), value["op"]
    if op not in letters or (op == DELETE) != (row is None):
        raise ValueError(f"op {op!r} does not fit")
    source = expect(value.get("source", {}), dict)
    if members.source is not None:
        Members(members.source).require(source.keys())
    return RowRecord(key, row, row is None, previous=previous, **stamps_of(source))


def nullable_row(value: Value) -> dict[str, Value] | None:
    """Return the columns of a row; ``None`` where there is no row."""
    return None if value is None else expect(value, dict)


def stamps_of(members: Mapping[str, Value]) -> Stamps:
    """Return the exact timestamps among the members.

    ``ts_ns`` is none of them, since it has no logical part.
    """
    stamps = Stamps()
    name = "updated" if "updated" in members else "ts_hlc"
    if name in members:
        stamps["updated"] = parse_decimal(expect(members[name], str))
    if "mvcc_timestamp" in members:
        stamps["mvcc_timestamp"] = parse_decimal(expect(members["mvcc_timestamp"], str))
    return stamps


def expect(value: Value, kind: type[_T]) -> _T:
    """Return the value if it is of this kind, else raise ``TypeError``."""
    if not isinstance(value, kind):
        raise TypeError(f"expected {_JSON_NAMES[kind]}, not {value!r}")
    return value

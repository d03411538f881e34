"""Reads JSON keys and values back: their text, and the object of metadata among a row's columns."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from typing import Any, Final, TypeVar

from tidegate.changefeed.encoding.json.metadata import METADATA_MEMBER
from tidegate.changefeed.encoding.record import Value
from tidegate.changefeed.encoding.record_members import Stamps, expect, stamps_of
from tidegate.changefeed.encoding.value_members import Members, ValueMembers

_T = TypeVar("_T", dict[str, Any], list[Any], str)
#: The escapes with which a JSON text may write half of a surrogate pair: ``"\\ud800"``.
_SURROGATE: Final = re.compile(rb"\\u[dD]")
_METADATA: Final = frozenset({"key", "mvcc_timestamp", "topic", "updated"})


def popped_stamps(row: dict[str, Value], members: ValueMembers) -> Stamps:
    """Remove the object ``__crdb__`` of metadata from a row, and return the timestamps in this object.

    A feed without metadata may have a column of that name. If the feed is not known, an object of that name
    counts as metadata if it has only members that metadata can have.
    """
    if members.metadata is None:
        return stamps_of(row.pop(METADATA_MEMBER)) if _like_metadata(row.get(METADATA_MEMBER)) else Stamps()
    if not members.metadata:
        return Stamps()
    metadata = expect(row.pop(METADATA_MEMBER), dict)
    Members(members.metadata).require(metadata.keys())
    return stamps_of(metadata)


def _like_metadata(value: Value) -> bool:
    return isinstance(value, dict) and bool(value) and value.keys() <= _METADATA


def _object(members: list[tuple[str, Value]]) -> dict[str, Value]:
    value = dict(members)
    if len(value) != len(members):
        raise ValueError(f"a member that stands there twice, of {', '.join(value)}")
    return value


def _no_constant(name: str) -> Value:
    raise ValueError(f"{name}, which is no JSON")


#: Made once here, since ``json.loads`` would make a decoder for every record.
_JSON: Final = json.JSONDecoder(parse_float=Decimal, parse_constant=_no_constant, object_pairs_hook=_object)


def parse(text: bytes | None, kind: type[_T]) -> _T:
    """Return the value of a JSON text.

    Raises ``ValueError`` for a text that is missing, empty or no JSON, and ``TypeError`` for a value of
    another kind.
    """
    if not text:
        raise ValueError("nothing there")
    value = _JSON.decode(text.decode())
    if _SURROGATE.search(text):
        _require_unicode(value)
    return expect(value, kind)


def _require_unicode(value: Value) -> None:
    """Raise ``ValueError`` for half of a surrogate pair: Python accepts it, and UTF-8 cannot express it."""
    json.dumps(value, ensure_ascii=False, default=str).encode()

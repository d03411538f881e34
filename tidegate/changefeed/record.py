"""Output records read back: what a consumer, the audit and ``tail`` see.

A record without a key is a marker. A row's key and value are read by the feed's envelope, because the text
alone does not tell them apart (a table may have a column named ``after``).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final, Protocol, TypeAlias, TypeVar

from tidegate.changefeed.json_envelopes.metadata import METADATA_MEMBER
from tidegate.changefeed.marker import MARKER_AS_MEMBER
from tidegate.changefeed.options import Envelope, FeedOptions, Format
from tidegate.errors import MalformedRecord
from tidegate.hlc import ResolvedTimestamp, Timestamp, parse_decimal

#: A column's value as JSON gave it: numbers are ``int``, or ``Decimal`` where they have a point or exponent.
Value: TypeAlias = Any

_T = TypeVar("_T", dict[str, Any], list[Any], str)
_STAMPS: Final = ("mvcc_timestamp", "updated")
_JSON: Final = json.JSONDecoder(parse_float=Decimal)  # json.loads would make one for every record
_JSON_NAMES: Final[dict[type, str]] = {dict: "an object", list: "an array", str: "a string"}


@dataclass(frozen=True, slots=True)
class RowRecord:
    """A row's record.

    ``row`` maps column names to values; ``None`` for a deletion and in the ``key_only`` envelope.
    ``deleted`` is ``None`` where the envelope does not say. The timestamps are ``None`` unless the feed
    was asked for them.
    """

    key: tuple[Value, ...]
    row: Mapping[str, Value] | None
    deleted: bool | None
    updated: Timestamp | None = None
    mvcc_timestamp: Timestamp | None = None


@dataclass(frozen=True, slots=True)
class MarkerRecord:
    """A resolved marker.

    ``offsets`` tells, by topic, below which offset of the marker's partition the rows stand that it speaks
    of; it is empty for a marker among the rows, which speaks of those before it.
    """

    resolved: ResolvedTimestamp
    offsets: Mapping[str, int] = field(default_factory=dict)


Record: TypeAlias = RowRecord | MarkerRecord


class RecordDecoder(Protocol):
    """Reads the records of one feed's topics."""

    def decode(self, key: bytes | None, value: bytes | None) -> Record:
        """Read one record. Raises ``MalformedRecord`` for bytes that this feed cannot have written."""


@dataclass(frozen=True, slots=True)
class JsonDecoder:
    """Reads JSON records of one envelope."""

    envelope: Envelope

    def decode(self, key: bytes | None, value: bytes | None) -> Record:
        """Read one record. Raises ``MalformedRecord`` for bytes that this feed cannot have written."""
        try:
            if key is None:
                return self._marker(_parse(value, dict))
            return self._row(tuple(_parse(key, list)), value)
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise MalformedRecord(
                f"not a JSON record of the {self.envelope.value} envelope ({error!r}): "
                f"key {key!r}, value {value!r}"
            ) from None

    def _marker(self, value: dict[str, Value]) -> MarkerRecord:
        holder = value if self.envelope in MARKER_AS_MEMBER else value[METADATA_MEMBER]
        return MarkerRecord(ResolvedTimestamp(parse_decimal(_expect(holder["resolved"], str))))

    def _row(self, key: tuple[Value, ...], value: bytes | None) -> RowRecord:
        match self.envelope:
            case Envelope.WRAPPED:
                return _wrapped(key, _parse(value, dict))
            case Envelope.ROW:
                return _plain(key, value)
            case Envelope.KEY_ONLY:
                return _key_only(key, value)
            case _:
                raise ValueError(f"the {self.envelope.value} envelope cannot be read yet")


#: The text of the schema with this id; ``MalformedRecord`` when the registry has none.
SchemaText: TypeAlias = Callable[[int], str]


def _no_registry(schema_id: int) -> str:
    raise MalformedRecord(f"schema {schema_id} is needed, and no schema registry is known to ask for it")


def decoder_for(options: FeedOptions, schema_text: SchemaText = _no_registry) -> RecordDecoder:
    """The decoder of a feed's records; ``schema_text`` is asked for each schema id once."""
    match options.format:
        case Format.JSON:
            return JsonDecoder(options.envelope)
        case Format.AVRO:
            raise MalformedRecord(f"Avro cannot be read yet ({schema_text})")


def parse_record(key: bytes | None, value: bytes | None, envelope: Envelope = Envelope.WRAPPED) -> Record:
    """Read one JSON record. Raises ``MalformedRecord``."""
    return JsonDecoder(envelope).decode(key, value)


def _wrapped(key: tuple[Value, ...], value: dict[str, Value]) -> RowRecord:
    row = value["after"]
    if row is None:
        return RowRecord(key, None, deleted=True, **_stamps(value))
    return RowRecord(key, _expect(row, dict), deleted=False, **_stamps(value))


def _plain(key: tuple[Value, ...], value: bytes | None) -> RowRecord:
    if not value:
        return RowRecord(key, None, deleted=True)
    row = _parse(value, dict)
    stamps = _stamps(row.pop(METADATA_MEMBER)) if _is_metadata(row.get(METADATA_MEMBER)) else {}
    return RowRecord(key, row, deleted=False, **stamps)


def _key_only(key: tuple[Value, ...], value: bytes | None) -> RowRecord:
    if value:
        raise ValueError("the value should be empty")
    return RowRecord(key, None, deleted=None)


def _is_metadata(value: Value) -> bool:
    """Whether this is the timestamps' object and not a column that happens to have its name."""
    return isinstance(value, dict) and bool(value) and value.keys() <= set(_STAMPS)


def _stamps(members: Mapping[str, Value]) -> dict[str, Timestamp]:
    return {name: parse_decimal(_expect(members[name], str)) for name in _STAMPS if name in members}


def _parse(text: bytes | None, kind: type[_T]) -> _T:
    if not text:
        raise ValueError("nothing there")
    return _expect(_JSON.decode(text.decode()), kind)


def _expect(value: Value, kind: type[_T]) -> _T:
    if not isinstance(value, kind):
        raise TypeError(f"expected {_JSON_NAMES[kind]}, not {value!r}")
    return value

"""Reads output records back, for consumers, for the audit and for ``tail``.

A record without a key is a marker. A row's key and value are read by the feed's envelope, because the text
alone does not distinguish them (a table may have a column named ``after``). A record without a value is a
deletion in the upsert envelope, and a tombstone in the debezium envelope. If ``on_oversize`` leaves out a
value, a header says which row it was; such a record cannot be decoded without its headers.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final, Protocol, TypeAlias, TypedDict, TypeVar

from tidegate.changefeed.definition.options import Envelope
from tidegate.changefeed.definition.oversize import read_oversize
from tidegate.changefeed.encoding.connect.payload import read_payload
from tidegate.changefeed.encoding.json.key import OBJECT_KEYS
from tidegate.changefeed.encoding.json.metadata import METADATA_MEMBER
from tidegate.changefeed.encoding.marker import MARKER_AS_MEMBER
from tidegate.changefeed.encoding.replaced import CREATE, DELETE, READ, UPDATE
from tidegate.changefeed.encoding.value_members import Members, ValueMembers, any_members
from tidegate.errors import MalformedRecord
from tidegate.hlc import ResolvedTimestamp, Timestamp, parse_decimal

#: A column's value as JSON has it. Numbers are ``int``, or ``Decimal`` if they have a point or an exponent.
Value: TypeAlias = Any
#: A record's headers, in their order.
Headers: TypeAlias = Sequence[tuple[str, bytes | None]]

_T = TypeVar("_T", dict[str, Any], list[Any], str)
_OPERATIONS: Final[Mapping[Envelope, frozenset[str]]] = {
    Envelope.ENRICHED: frozenset({CREATE, UPDATE, DELETE}),
    Envelope.DEBEZIUM: frozenset({CREATE, UPDATE, DELETE, READ}),
}
#: Envelopes in which an empty value can only be one that was left out.
MAY_LEAVE_OUT: Final = frozenset({Envelope.WRAPPED, Envelope.BARE, Envelope.ENRICHED})
_METADATA: Final = frozenset({"key", "mvcc_timestamp", "topic", "updated"})
_FRAME: Final = frozenset({"payload", "schema"})
_JSON_NAMES: Final[dict[type, str]] = {dict: "an object", list: "an array", str: "a string"}


class Stamps(TypedDict, total=False):
    """The timestamps of a row that are in its record."""

    updated: Timestamp
    mvcc_timestamp: Timestamp


@dataclass(frozen=True, slots=True)
class RowRecord:
    """A row's record.

    ``key`` holds the key's values in the order of its text: an object's members, or an array's elements.

    ``row`` maps column names to values. It is ``None`` for a deletion, in the ``key_only`` envelope, and if
    the row was too large: then ``oversize_bytes`` is its size, which is not 0.

    ``deleted`` is ``None`` if the record does not say it: in the ``key_only`` envelope, and for a bare row in
    which no more columns have values than the key has. ``previous`` is the row before, ``None`` if there was
    none or the feed does not show it. The timestamps are ``None`` unless they are in the record.
    ``tombstone`` marks the record without a value that follows a deletion's record. It lets log compaction
    forget the key, repeats the deletion, and is no version of its own.
    """

    key: tuple[Value, ...]
    row: Mapping[str, Value] | None
    deleted: bool | None
    updated: Timestamp | None = None
    mvcc_timestamp: Timestamp | None = None
    previous: Mapping[str, Value] | None = None
    tombstone: bool = False
    oversize_bytes: int = 0


@dataclass(frozen=True, slots=True)
class MarkerRecord:
    """A resolved marker.

    In a marker on a topic of its own, ``offsets`` has for each topic the offset, in the marker's partition,
    below which the rows stand that the marker covers. It is empty for a marker among rows, which covers the
    rows before it.
    """

    resolved: ResolvedTimestamp
    offsets: Mapping[str, int] = field(default_factory=dict)


Record: TypeAlias = RowRecord | MarkerRecord


class RecordDecoder(Protocol):
    """Reads the records of one feed's topics."""

    @property
    def tombstones(self) -> bool:
        """Whether a tombstone follows each deletion's record."""

    def decode(self, key: bytes | None, value: bytes | None, headers: Headers = ()) -> Record:
        """Read one record. Raises ``MalformedRecord`` for a record that this feed cannot have written."""


@dataclass(frozen=True, slots=True)
class JsonDecoder:
    """Reads JSON records of one envelope.

    ``row_keys`` is false if ``key_column`` replaces the rows' own keys. With ``connect_schema`` or
    ``enriched_schema`` keys and values are the payloads of objects that hold a schema beside them.
    ``members`` are those of the feed's values. Without it a value may have every member that its envelope
    allows. ``oversize`` says that values may have been left out.
    """

    envelope: Envelope
    row_keys: bool = True
    connect_schema: bool = False
    enriched_schema: bool = False
    members: ValueMembers | None = None
    oversize: bool = True

    @property
    def tombstones(self) -> bool:
        """Whether a tombstone follows each deletion's record."""
        return self.envelope is Envelope.DEBEZIUM

    def decode(self, key: bytes | None, value: bytes | None, headers: Headers = ()) -> Record:
        """Read one record. Raises ``MalformedRecord`` for a record that this feed cannot have written."""
        try:
            if key is None:
                return self._marker(_parse(value, dict))
            if value == b"" and self.oversize and self.envelope in MAY_LEAVE_OUT:
                return oversize_record(self._key(key), headers)
            return self._row(self._key(key), value)
        except (ValueError, TypeError, KeyError, ArithmeticError, RecursionError) as error:
            raise MalformedRecord(
                f"not a JSON record of the {self.envelope.value} envelope ({error!r}): "
                f"key {key!r}, value {value!r}"
            ) from None

    def _marker(self, value: dict[str, Value]) -> MarkerRecord:
        if self.envelope not in MARKER_AS_MEMBER:
            value = _expect(_only_member(value, METADATA_MEMBER), dict)
        return MarkerRecord(ResolvedTimestamp(parse_decimal(_expect(_only_member(value, "resolved"), str))))

    def _key(self, key: bytes) -> tuple[Value, ...]:
        values = tuple(self._payload(key).values() if self.envelope in OBJECT_KEYS else _parse(key, list))
        if not values:
            raise ValueError("a key of no columns")
        return values

    def _row(self, key: tuple[Value, ...], value: bytes | None) -> RowRecord:
        members = any_members(self.envelope) if self.members is None else self.members
        match self.envelope:
            case Envelope.WRAPPED:
                return wrapped_record(key, _parse(value, dict), members)
            case Envelope.ROW:
                return _plain(key, value, members)
            case Envelope.KEY_ONLY:
                return key_only_record(key, value)
            case Envelope.BARE:
                row = _parse(value, dict)
                stamps = _popped_stamps(row, members)
                return RowRecord(key, row, bare_deleted(key, row, row_keys=self.row_keys), **stamps)
            case Envelope.UPSERT:
                return RowRecord(key, None, True) if value is None else self._upserted(key, value)
            case Envelope.ENRICHED:
                return change_record(key, self._payload(value), members, self.envelope)
            case Envelope.DEBEZIUM:
                if value is None:
                    return RowRecord(key, None, deleted=True, tombstone=True)
                return change_record(key, self._payload(value), members, self.envelope)

    def _upserted(self, key: tuple[Value, ...], value: bytes) -> RowRecord:
        return RowRecord(key, self._payload(value), deleted=False)

    def _payload(self, text: bytes | None) -> dict[str, Value]:
        parsed = _parse(text, dict)
        if not self.enriched_schema and not self.connect_schema:
            return parsed
        if parsed.keys() != _FRAME:
            raise ValueError(f"the members {', '.join(parsed)} in place of {' and '.join(sorted(_FRAME))}")
        return _expect(parsed["payload"] if self.enriched_schema else read_payload(parsed), dict)


#: Returns the text of the schema with this id. Raises ``MalformedRecord`` if the registry has none.
SchemaText: TypeAlias = Callable[[int], str]


def parse_record(
    key: bytes | None, value: bytes | None, envelope: Envelope = Envelope.WRAPPED, headers: Headers = ()
) -> Record:
    """Read one JSON record.

    Raises ``MalformedRecord``, also for a left-out row whose ``headers`` are not given.
    """
    return JsonDecoder(envelope).decode(key, value, headers)


def wrapped_record(key: tuple[Value, ...], value: Mapping[str, Value], members: ValueMembers) -> RowRecord:
    """Return a record of the wrapped envelope from its members."""
    members.value.require(value.keys())
    row = _nullable(value["after"])
    return RowRecord(key, row, row is None, previous=_nullable(value.get("before")), **_stamps(value))


def _plain(key: tuple[Value, ...], value: bytes | None, members: ValueMembers) -> RowRecord:
    if value == b"":  # an empty value, not an absent one
        return RowRecord(key, None, deleted=True)
    row = _parse(value, dict)
    return RowRecord(key, row, deleted=False, **_popped_stamps(row, members))


def key_only_record(key: tuple[Value, ...], value: bytes | None) -> RowRecord:
    """Return a record of the key_only envelope, whose value is empty and not absent."""
    if value != b"":
        raise ValueError("the value should be empty")
    return RowRecord(key, None, deleted=None)


def oversize_record(key: tuple[Value, ...], headers: Headers) -> RowRecord:
    """Return a record whose value was left out. Raises ``ValueError`` if its headers do not say so."""
    left_out = read_oversize(headers)
    if left_out is None:
        raise ValueError("the value is empty, and no header says that the row was too large")
    return RowRecord(
        key,
        None,
        left_out.deleted,
        left_out.updated,
        left_out.mvcc_timestamp,
        oversize_bytes=left_out.size_bytes,
    )


def bare_deleted(key: tuple[Value, ...], row: Mapping[str, Value], *, row_keys: bool) -> bool | None:
    """Return whether a bare record is a deletion, which has the columns of its key and nulls.

    Returns ``None`` for a record that may be a deletion or a row that looks the same.
    """
    present = sum(value is not None for value in row.values())
    return False if row_keys and present > len(key) else None


def change_record(
    key: tuple[Value, ...], value: Mapping[str, Value], members: ValueMembers, envelope: Envelope
) -> RowRecord:
    """Return a record of the enriched or the debezium envelope from its members."""
    members.value.require(value.keys())
    row, previous, op = _nullable(value["after"]), _nullable(value.get("before")), value["op"]
    if op not in _OPERATIONS[envelope] or (op == DELETE) != (row is None):
        raise ValueError(f"op {op!r} does not fit")
    source = _expect(value.get("source", {}), dict)
    if members.source is not None:
        Members(members.source).require(source.keys())
    return RowRecord(key, row, row is None, previous=previous, **_stamps(source))


def _nullable(value: Value) -> dict[str, Value] | None:
    return None if value is None else _expect(value, dict)


def _popped_stamps(row: dict[str, Value], members: ValueMembers) -> Stamps:
    """Remove the object of metadata from a row that stands by itself, and return its timestamps.

    A feed without metadata may have a column of that name. If the feed is not known, an object counts as
    metadata that looks like it.
    """
    if members.metadata is None:
        return _stamps(row.pop(METADATA_MEMBER)) if _like_metadata(row.get(METADATA_MEMBER)) else Stamps()
    if not members.metadata:
        return Stamps()
    metadata = _expect(row.pop(METADATA_MEMBER), dict)
    Members(members.metadata).require(metadata.keys())
    return _stamps(metadata)


def _like_metadata(value: Value) -> bool:
    return isinstance(value, dict) and bool(value) and value.keys() <= _METADATA


def _stamps(members: Mapping[str, Value]) -> Stamps:
    """Return the exact timestamps among the members.

    ``ts_ns`` is none of them, since it has no logical part.
    """
    stamps = Stamps()
    name = "updated" if "updated" in members else "ts_hlc"
    if name in members:
        stamps["updated"] = parse_decimal(_expect(members[name], str))
    if "mvcc_timestamp" in members:
        stamps["mvcc_timestamp"] = parse_decimal(_expect(members["mvcc_timestamp"], str))
    return stamps


def _only_member(value: dict[str, Value], name: str) -> Value:
    if value.keys() != {name}:
        raise ValueError(f"a marker has the member {name} alone")
    return value[name]


def _object(members: list[tuple[str, Value]]) -> dict[str, Value]:
    value = dict(members)
    if len(value) != len(members):
        raise ValueError(f"a member that stands there twice, of {', '.join(value)}")
    return value


def _no_constant(name: str) -> Value:
    raise ValueError(f"{name}, which is no JSON")


#: Made once here, since ``json.loads`` would make a decoder for every record.
_JSON: Final = json.JSONDecoder(parse_float=Decimal, parse_constant=_no_constant, object_pairs_hook=_object)


def _parse(text: bytes | None, kind: type[_T]) -> _T:
    if not text:
        raise ValueError("nothing there")
    return _expect(_JSON.decode(text.decode()), kind)


def _expect(value: Value, kind: type[_T]) -> _T:
    if not isinstance(value, kind):
        raise TypeError(f"expected {_JSON_NAMES[kind]}, not {value!r}")
    return value

"""Cases of kind ``mvcc.value``: a stored value with or without a header before it."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from tests.conformance.case import Case
from tests.conformance.form import Form
from tests.conformance.literals import datum_of
from tidegate.errors import EncodingError
from tidegate.rows import Datum, Kind, SqlType
from tidegate.rows.value_frame import CHECKSUM_SIZE, PAYLOAD_START, ValueTag, join_header, split_header
from tidegate.rows.valueside.bare import bare_codec
from tidegate.rows.valueside.varints import encode_uvarint

_UNSET_CHECKSUM: Final = bytes(CHECKSUM_SIZE)
_TYPES: Final = {
    ValueTag.INT: SqlType(Kind.INT),
    ValueTag.FLOAT: SqlType(Kind.FLOAT),
    ValueTag.BYTES: SqlType(Kind.STRING),
    ValueTag.TIME: SqlType(Kind.TIMESTAMP),
    ValueTag.DECIMAL: SqlType(Kind.DECIMAL),
    ValueTag.DURATION: SqlType(Kind.INTERVAL),
    ValueTag.BIT_ARRAY: SqlType(Kind.BIT),
    ValueTag.TIME_TZ: SqlType(Kind.TIMETZ),
}


_LOCAL_TIMES: Final = frozenset({"local_ts_wall", "local_ts_logical"})
#: Fields 3 to 5, in their order.
_HEADER_NUMBERS: Final = {"omit_in_rangefeeds": b"\x18", "import_epoch": b"\x20", "origin_id": b"\x28"}


class _Stored(NamedTuple):
    header: bytes | None
    tag: ValueTag | None  # None: a tombstone
    datum: Datum


def _read(case: Case) -> _Stored:
    value = case["value"]
    header = _header(value["header"]) if "header" in value else None
    if value.get("tombstone"):
        return _Stored(header, None, None)
    tag = ValueTag[value["type"]]
    return _Stored(header, tag, datum_of(_TYPES[tag], value["value"]))


def _header(header: dict[str, Any]) -> bytes:
    """The protobuf header: field 1 is a timestamp of wall time and logical; the others are numbers.

    Raises ``ValueError`` for a member that it has no field for.
    """
    if unknown := header.keys() - _HEADER_NUMBERS.keys() - _LOCAL_TIMES:
        raise ValueError(f"the cases' reader knows no field {min(unknown)} of a value's header")
    wall, logical = int(header.get("local_ts_wall", 0)), int(header.get("local_ts_logical", 0))
    timestamp = b"\x08" + encode_uvarint(wall) if wall else b""
    timestamp += b"\x10" + encode_uvarint(logical) if logical else b""
    local = b"\x0a" + encode_uvarint(len(timestamp)) + timestamp if header.keys() & _LOCAL_TIMES else b""
    numbers = (
        tag + encode_uvarint(int(header[name])) for name, tag in _HEADER_NUMBERS.items() if header.get(name)
    )
    return local + b"".join(numbers)


def _encode(stored: _Stored) -> bytes:
    value = b""
    if stored.tag is not None:
        payload = bare_codec(_TYPES[stored.tag]).encode(stored.datum)
        value = _UNSET_CHECKSUM + bytes((stored.tag,)) + payload
    return value if stored.header is None else join_header(stored.header, value)


def _decode(data: bytes) -> _Stored:
    header, value = split_header(data)
    if not value:
        return _Stored(header, None, None)
    if value[CHECKSUM_SIZE] not in {int(tag) for tag in _TYPES}:
        raise EncodingError(f"tag {value[CHECKSUM_SIZE]} is not one that stands alone")
    tag = ValueTag(value[CHECKSUM_SIZE])
    return _Stored(header, tag, bare_codec(_TYPES[tag]).decode(value[PAYLOAD_START:]))


MVCC_VALUE: Final = Form(_encode, _decode, _read)

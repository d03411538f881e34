"""JSONB payloads: a container header, one word per entry, then the entries' bytes.

An entry word holds a type, and either the entry's length or an offset. Entry 0 and every 32nd entry after it
have an offset: that of their end from the start of the data. The others have a length. An object numbers its
keys and its values separately, and the offsets of values go on from those of keys. In older payloads all
entries have a length, so a reader decides only by the flag in the word. Source: CockroachDB
docs/RFCS/20171005_jsonb_encoding.md, pkg/util/json/encode.go.
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import Final, NamedTuple

from tidegate.errors import EncodingError
from tidegate.rows.keyside.byte_strings import utf8
from tidegate.rows.take import take
from tidegate.rows.types import JsonValue
from tidegate.rows.valueside.decimals import decode_decimal, encode_decimal

_ARRAY: Final = 0x8000_0000
_OBJECT: Final = 0x4000_0000
_SCALAR: Final = 0x2000_0000
_CONTAINER_MASK: Final = 0xE000_0000
_COUNT_MASK: Final = 0x1FFF_FFFF

_NULL: Final = 0x0000_0000
_STRING: Final = 0x1000_0000
_NUMBER: Final = 0x2000_0000
_FALSE: Final = 0x3000_0000
_TRUE: Final = 0x4000_0000
_CONTAINER: Final = 0x5000_0000
_TYPE_MASK: Final = 0x7000_0000
_IS_OFFSET: Final = 0x8000_0000
_LENGTH_MASK: Final = 0x0FFF_FFFF

#: The most levels of containers in containers. Each level takes calls on the stack.
MAX_NESTING: Final = 256
#: The most decimal places of one zero, and the most of all zeros in a document together.
MOST_ZERO_PLACES: Final = 2_000
MAX_ZERO_PLACES: Final = 64 << 20
#: A document with at most so many bytes cannot have so many decimal places.
_UNCOUNTED_BYTES: Final = 256 << 10

_WORD: Final = 4
_OFFSET_STRIDE: Final = 32


class _Entry(NamedTuple):
    kind: int
    data: bytes


class _Place(NamedTuple):
    """An entry that is read: its kind, and the place of its data in the document.

    It has no copy of the data. With containers in containers there would be a copy at each level, and these
    copies would take as many bytes as the data times the depth.
    """

    kind: int
    start: int
    end: int


def encode_jsonb(value: JsonValue) -> bytes:
    """Return the payload of a JSON document; object keys are sorted."""
    if isinstance(value, list | dict):
        return _encode_container(value, 0)
    entry = _entry_of(value, 0)
    return _word(_SCALAR) + _word(entry.kind | len(entry.data)) + entry.data


def decode_jsonb(payload: bytes) -> JsonValue:
    """Undo `encode_jsonb`, for older payloads too.

    Raises `EncodingError` when the payload is malformed, nested beyond `MAX_NESTING`, or has zeros of more
    than `MAX_ZERO_PLACES` decimal places altogether.
    """
    value = _decode_container(payload, 0, len(payload), 0)
    if len(payload) > _UNCOUNTED_BYTES:
        _require_room(value)
    return value


def _entry_of(value: JsonValue, depth: int) -> _Entry:
    if value is None:
        return _Entry(_NULL, b"")
    if value is True or value is False:
        return _Entry(_TRUE if value else _FALSE, b"")
    if isinstance(value, str):
        return _Entry(_STRING, value.encode())
    if isinstance(value, Decimal):
        return _Entry(_NUMBER, encode_decimal(value))
    if isinstance(value, list | dict):
        return _Entry(_CONTAINER, _encode_container(value, depth + 1))
    raise EncodingError(f"{value!r} is no JSON value (numbers are Decimal)")


def _encode_container(value: list[JsonValue] | dict[str, JsonValue], depth: int) -> bytes:
    _require_depth(depth)
    if isinstance(value, list):
        tag, runs = _ARRAY, [[_entry_of(element, depth) for element in value]]
    else:
        names = sorted(value)
        tag = _OBJECT
        runs = [[_entry_of(name, depth) for name in names], [_entry_of(value[name], depth) for name in names]]
    data = b"".join(entry.data for run in runs for entry in run)
    if len(data) > _LENGTH_MASK:
        raise EncodingError(f"a JSON container of {len(data)} bytes is too large")
    return _word(tag | len(value)) + b"".join(map(_word, _entry_words(runs))) + data


def _entry_words(runs: list[list[_Entry]]) -> Iterable[int]:
    end = 0
    for run in runs:
        for i, entry in enumerate(run):
            end += len(entry.data)
            if i % _OFFSET_STRIDE == 0:
                yield _IS_OFFSET | entry.kind | end
            else:
                yield entry.kind | len(entry.data)


def _word(value: int) -> bytes:
    return value.to_bytes(_WORD, "big")


def _require_depth(depth: int) -> None:
    if depth > MAX_NESTING:
        raise EncodingError(f"a JSON document is nested too deeply: more than {MAX_NESTING} levels")


def _require_room(value: JsonValue) -> None:
    """Refuse a document whose zeros would be printed with too many decimal places. For example, ``0E-1999``
    has nine bytes here, and is printed with 2,001 digits.
    """
    places = 0
    pending = [value]
    while pending:
        match pending.pop():
            case Decimal() as number if not number:
                places += min(max(-number.adjusted(), 0), MOST_ZERO_PLACES)
            case list() as elements:
                pending += elements
            case dict() as members:
                pending += members.values()
    if places > MAX_ZERO_PLACES:
        raise EncodingError(
            f"a JSON document has zeros of {places} decimal places, and {MAX_ZERO_PLACES} can be printed"
        )


def _decode_container(payload: bytes, start: int, end: int, depth: int) -> JsonValue:
    """Return the container from ``start`` to ``end``."""
    _require_depth(depth)
    word, _ = take(payload[start : min(start + _WORD, end)], 0, _WORD)
    header, words = int.from_bytes(word, "big"), start + _WORD
    tag, count = header & _CONTAINER_MASK, header & _COUNT_MASK
    if tag == _ARRAY:
        return [_value_of(payload, entry, depth) for entry in _read_entries(payload, words, end, count)]
    if tag == _OBJECT:
        entries = _read_entries(payload, words, end, 2 * count)
        return {
            _name_of(payload, name): _value_of(payload, value, depth)
            for name, value in zip(entries[:count], entries[count:], strict=True)
        }
    if tag == _SCALAR and count == 0:
        return _value_of(payload, _read_entries(payload, words, end, 1)[0], depth)
    raise EncodingError(f"0x{header:08x} does not begin a JSON document")


def _read_entries(payload: bytes, position: int, limit: int, count: int) -> list[_Place]:
    """Return ``count`` entries whose words begin at ``position``; their data must fill the rest up to
    ``limit`` exactly.
    """
    data_start = position + _WORD * count
    if data_start > limit:
        raise EncodingError(f"a JSON container of {limit - position + _WORD} bytes announces {count} entries")
    entries: list[_Place] = []
    start = data_start
    for at in range(position, data_start, _WORD):
        word = int.from_bytes(payload[at : at + _WORD], "big")
        origin = data_start if word & _IS_OFFSET else start
        end = origin + (word & _LENGTH_MASK)
        if not start <= end <= limit:
            raise EncodingError(f"entry {len(entries)} of a JSON container leaves its bounds")
        entries.append(_Place(word & _TYPE_MASK, start, end))
        start = end
    if start != limit:
        raise EncodingError(f"{limit - start} bytes follow a JSON container")
    return entries


def _name_of(payload: bytes, entry: _Place) -> str:
    if entry.kind != _STRING:
        raise EncodingError("a JSON object has a key that is no string")
    return utf8(payload[entry.start : entry.end], 0)


def _value_of(payload: bytes, entry: _Place, depth: int) -> JsonValue:
    kind, start, end = entry
    if kind == _STRING:
        return utf8(payload[start:end], 0)
    if kind == _NUMBER:
        return _number(payload[start:end])
    if kind == _CONTAINER:
        return _decode_container(payload, start, end, depth + 1)
    if start != end or kind not in _CONSTANTS:
        raise EncodingError(f"a JSON entry has the unknown type 0x{kind:08x} or bytes where it has none")
    return _CONSTANTS[kind]


_CONSTANTS: Final[dict[int, bool | None]] = {_NULL: None, _FALSE: False, _TRUE: True}


def _number(data: bytes) -> Decimal:
    number, end = decode_decimal(data, 0)
    if end != len(data):
        raise EncodingError(f"{len(data) - end} bytes follow a JSON number")
    return number

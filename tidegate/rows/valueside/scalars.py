"""Writes and reads the bytes of scalars in values, which stand after their tags.

Integers are zigzag LEB128 unless said otherwise. Source: CockroachDB pkg/util/encoding/encoding.go.
"""

from __future__ import annotations

import struct
import uuid
from typing import Final

from tidegate.errors import EncodingError
from tidegate.hlc import NANOS_PER_SECOND
from tidegate.rows.keyside.bit_strings import WORD_BITS, bits_of, words_of
from tidegate.rows.keyside.temporal import second_fraction
from tidegate.rows.take import marker_at, take
from tidegate.rows.types import Interval, Json, TimeTz
from tidegate.rows.valueside.jsonb import decode_jsonb, encode_jsonb
from tidegate.rows.valueside.tags import WireType
from tidegate.rows.valueside.varints import decode_length, decode_zigzag, encode_length, encode_zigzag

_DOUBLE: Final = struct.Struct(">d")
#: The NaN that Go writes: it ends in 1, and Python's own NaN ends in 0.
_NAN: Final = bytes.fromhex("7ff8000000000001")
_TWO_TO_63: Final = 1 << 63
_TWO_TO_64: Final = 1 << 64
_TRUE: Final = int(WireType.TRUE)
_FALSE: Final = int(WireType.FALSE)
_LONG: Final = 0x80  # lengths below it are a single byte


def encode_sized(data: bytes) -> bytes:
    """Encode the length of the bytes, and then the bytes."""
    return encode_length(len(data)) + data


def decode_sized(buffer: bytes, position: int) -> tuple[bytes, int]:
    """Return the bytes that `encode_sized` encoded, and the position after them.

    Raises `EncodingError` when they are cut off.
    """
    size, start = decode_length(buffer, position)
    return take(buffer, start, size)


def decode_string(buffer: bytes, position: int) -> tuple[str, int]:
    """Undo `encode_string`. It does not call `decode_sized`, to save time: most of a row is strings."""
    if position < len(buffer) and (size := buffer[position]) < _LONG:
        start = position + 1
    else:
        size, start = decode_length(buffer, position)
    end = start + size
    if end > len(buffer):
        raise EncodingError(f"a string of {size} bytes is cut at offset {len(buffer)}")
    try:
        return buffer[start:end].decode(), end
    except UnicodeDecodeError as error:
        raise EncodingError(f"the string at offset {start} is not UTF-8: {error.reason}") from None


def encode_string(text: str) -> bytes:
    """Encode the length of the text in UTF-8, and then its bytes."""
    return encode_sized(text.encode())


def encode_float(value: float) -> bytes:
    """Encode a float in eight bytes, IEEE 754. Every NaN is written as the NaN of Go."""
    return _DOUBLE.pack(value) if value == value else _NAN


def decode_float(buffer: bytes, position: int) -> tuple[float, int]:
    """Undo `encode_float`. Raises `EncodingError` when malformed."""
    bits, end = take(buffer, position, 8)
    return _DOUBLE.unpack(bits)[0], end


def encode_uuid(value: uuid.UUID) -> bytes:
    """Encode a UUID in sixteen bytes."""
    return value.bytes


def decode_uuid(buffer: bytes, position: int) -> tuple[uuid.UUID, int]:
    """Undo `encode_uuid`. Raises `EncodingError` when malformed."""
    data, end = take(buffer, position, 16)
    return uuid.UUID(bytes=data), end


def encode_timestamp(nanos: int) -> bytes:
    """Encode nanoseconds since 1970 as whole seconds, and the remaining nanoseconds."""
    seconds, rest = divmod(nanos, NANOS_PER_SECOND)
    return encode_zigzag(seconds) + encode_zigzag(rest)


def decode_timestamp(buffer: bytes, position: int) -> tuple[int, int]:
    """Undo `encode_timestamp`. Raises `EncodingError` when malformed."""
    seconds, middle = decode_zigzag(buffer, position)
    rest, end = decode_zigzag(buffer, middle)
    return seconds * NANOS_PER_SECOND + second_fraction(rest), end


def encode_timetz(time: TimeTz) -> bytes:
    """Encode microseconds of the local day, and the offset west of UTC in seconds."""
    return encode_zigzag(time.micros) + encode_zigzag(time.offset_seconds)


def decode_timetz(buffer: bytes, position: int) -> tuple[TimeTz, int]:
    """Undo `encode_timetz`. Raises `EncodingError` when malformed."""
    micros, middle = decode_zigzag(buffer, position)
    offset, end = decode_zigzag(buffer, middle)
    return TimeTz(micros, offset), end


def encode_interval(interval: Interval) -> bytes:
    """Encode months, days and nanoseconds."""
    return b"".join(map(encode_zigzag, interval))


def decode_interval(buffer: bytes, position: int) -> tuple[Interval, int]:
    """Undo `encode_interval`. Raises `EncodingError` when malformed."""
    months, position = decode_zigzag(buffer, position)
    days, position = decode_zigzag(buffer, position)
    nanos, end = decode_zigzag(buffer, position)
    return Interval(months, days, nanos), end


def encode_bits(bits: str) -> bytes:
    """Encode the number of bits, then 64-bit words, left aligned."""
    return encode_length(len(bits)) + b"".join(word.to_bytes(8, "big") for word in words_of(bits))


def decode_bits(buffer: bytes, position: int) -> tuple[str, int]:
    """Undo `encode_bits`. Raises `EncodingError` when malformed."""
    length, start = decode_length(buffer, position)
    if not length:
        return "", start
    data, end = take(buffer, start, 8 * -(-length // WORD_BITS))
    words = [int.from_bytes(data[i : i + 8], "big") for i in range(0, len(data), 8)]
    return bits_of(words, length), end


def encode_lsn(lsn: int) -> bytes:
    """Encode an unsigned integer as the signed one with the same 64 bits."""
    if not 0 <= lsn < _TWO_TO_64:
        raise EncodingError(f"{lsn} does not fit in 64 bits without a sign")
    return encode_zigzag(lsn - _TWO_TO_64 if lsn >= _TWO_TO_63 else lsn)


def decode_lsn(buffer: bytes, position: int) -> tuple[int, int]:
    """Undo `encode_lsn`. Raises `EncodingError` when malformed."""
    value, end = decode_zigzag(buffer, position)
    return value % _TWO_TO_64, end


def encode_json(datum: Json) -> bytes:
    """Encode a JSONB payload after its length."""
    return encode_sized(encode_jsonb(datum.value))


def decode_json(buffer: bytes, position: int) -> tuple[Json, int]:
    """Undo `encode_json`. Raises `EncodingError` when malformed."""
    data, end = decode_sized(buffer, position)
    return Json(decode_jsonb(data)), end


def encode_bool_element(value: bool) -> bytes:
    """Encode a boolean in an array. The byte is the wire type that stands for the value."""
    return bytes((WireType.TRUE if value else WireType.FALSE,))


def decode_bool_element(buffer: bytes, position: int) -> tuple[bool, int]:
    """Undo `encode_bool_element`. Raises `EncodingError` when malformed."""
    byte = marker_at(buffer, position)
    if byte == _TRUE:
        return True, position + 1
    if byte == _FALSE:
        return False, position + 1
    raise EncodingError(f"byte 0x{byte:02x} is no element of an array of booleans")

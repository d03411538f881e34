"""Prints keys for people: ``/Table/51/1/"Alice"/0``, as CockroachDB does.

It needs no descriptor, since the marker byte of a datum tells its type. In integers, decimals, times and
intervals the marker does not show the column's direction. They are read as ascending, so a descending 7 shows
as -8. Bytes that cannot be read are shown as quoted bytes. Source: CockroachDB pkg/keys/printer.go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any, Final, TypeAlias

from tidegate.errors import EncodingError
from tidegate.hlc import NANOS_PER_SECOND
from tidegate.rows.float_text import general_text
from tidegate.rows.keyside import bit_strings, boxes, byte_strings, decimals, floats, integers, temporal
from tidegate.rows.table_key import TENANT
from tidegate.rows.take import Decode
from tidegate.rows.types import Box2D, Interval, TimeTz

_NULLS: Final = (0x00, 0xFF)
_NOT_NULL_ASC: Final = 0x01
_NOT_NULL_DESC: Final = 0xFE
_EPOCH: Final = datetime(1970, 1, 1)  # UTC; the Z is added to the text
_ESCAPES: Final = {
    7: "\\a",
    8: "\\b",
    9: "\\t",
    10: "\\n",
    11: "\\v",
    12: "\\f",
    13: "\\r",
    34: '\\"',
    92: "\\\\",
}

_Show: TypeAlias = Callable[[Any], str]


def pretty_key(key: bytes) -> str:
    """Return a key as text. It raises no error, whatever the bytes are."""
    if not key:
        return "/Min"
    parts: list[str] = []
    position = 0
    try:
        if key[0] == TENANT:
            tenant_id, position = integers.decode_uvarint_asc(key, 1)
            parts.append(f"/Tenant/{tenant_id}")
        if position < len(key):
            table_id, position = integers.decode_uvarint_asc(key, position)
            parts.append(f"/Table/{table_id}")
    except EncodingError:
        return f"/{quoted(key)}"
    parts.extend(f"/{text}" for text in _datums(key, position))
    return "".join(parts)


def quoted(data: bytes) -> str:
    """Return bytes as a quoted string, escaped as in Go source code."""
    out: list[str] = []
    for character in data.decode("utf-8", "surrogateescape"):
        code = ord(character)
        if code in _ESCAPES:
            out.append(_ESCAPES[code])
        elif 0xDC80 <= code <= 0xDCFF:  # a byte that is not UTF-8
            out.append(f"\\x{code - 0xDC00:02x}")
        elif character.isprintable():
            out.append(character)
        elif code < 0x80:
            out.append(f"\\x{code:02x}")
        else:
            out.append(f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}")
    return '"' + "".join(out) + '"'


def _datums(key: bytes, position: int) -> Iterator[str]:
    while position < len(key):
        try:
            text, position = _datum(key, position)
        except EncodingError:
            yield quoted(key[position:])
            return
        yield text


def _datum(key: bytes, position: int) -> tuple[str, int]:
    marker = key[position]
    if marker in _NULLS:
        return "NULL", position + 1
    if marker == _NOT_NULL_ASC:
        return "!NULL", position + 1
    if marker == _NOT_NULL_DESC:
        # After the columns of a parent table's key, this marker begins the row of an interleaved table.
        return ("#" if position + 1 < len(key) else "!NULL"), position + 1
    if marker not in _READERS:
        raise EncodingError(f"byte 0x{marker:02x} begins no datum of a key")
    decode, show = _READERS[marker]
    datum, end = decode(key, position)
    return show(datum), end


def _integer(key: bytes, position: int) -> tuple[int, int]:
    """Read an integer as unsigned unless it is negative, since ids may be larger than a signed integer."""
    if key[position] >= integers.ZERO:
        return integers.decode_uvarint_asc(key, position)
    return integers.decode_varint_asc(key, position)


def _timestamp(key: bytes, position: int) -> tuple[int, int]:
    """Read a timestamp as `temporal.decode_timestamp_asc` does. A descending one is accepted too, but shows a
    wrong time.
    """
    seconds, middle = integers.decode_varint_asc(key, position + 1)
    nanos, end = integers.decode_varint_asc(key, middle)
    return seconds * NANOS_PER_SECOND + nanos, end


def _show_box(box: Box2D) -> str:
    lo_x, hi_x, lo_y, hi_y = map(general_text, box)
    return f"BOX({lo_x} {lo_y},{hi_x} {hi_y})"


def _show_timestamp(nanos: int) -> str:
    seconds, rest = divmod(nanos, NANOS_PER_SECOND)
    try:
        moment = (_EPOCH + timedelta(seconds=seconds)).isoformat()
    except OverflowError:
        return f"{seconds}.{rest:09d}s"
    fraction = f".{rest:09d}".rstrip("0") if rest else ""
    return f"{moment}{fraction}Z"


def _show_timetz(time: TimeTz) -> str:
    sign = "-" if time.offset_seconds > 0 else "+"
    return f"{_clock(time.micros)}{sign}{_clock(abs(time.offset_seconds) * 1_000_000)}"


def _show_interval(interval: Interval) -> str:
    years, months = divmod(abs(interval.months), 12)
    direction = -1 if interval.months < 0 else 1
    counts = ((direction * years, "year"), (direction * months, "mon"), (interval.days, "day"))
    parts = [f"{count} {unit}{'' if count == 1 else 's'}" for count, unit in counts if count]
    if interval.nanos or not parts:
        parts.append(_show_span(interval.nanos, after_negative=min(interval.months, interval.days) < 0))
    return " ".join(parts)


def _show_span(nanos: int, after_negative: bool) -> str:
    """Print the part of an interval from hours to nanoseconds.

    A positive part after negative days gets a plus sign. Otherwise it would seem to be negative too.
    """
    micros, rest = divmod(abs(nanos), 1000)
    sign = "-" if nanos < 0 else "+"
    lead = sign if nanos < 0 or after_negative else ""
    return lead + _clock(micros) + (f"{sign}{rest}ns" if rest else "")


def _clock(micros: int) -> str:
    seconds, fraction = divmod(micros, 1_000_000)
    text = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return text + (f".{fraction:06d}".rstrip("0") if fraction else "")


def _readers() -> dict[int, tuple[Decode, _Show]]:
    float_markers = range(floats.NAN_ASC, floats.NAN_DESC + 1)
    readers: dict[int, tuple[Decode, _Show]] = {
        byte_strings.ASC: (byte_strings.decode_bytes_asc, quoted),
        byte_strings.DESC: (byte_strings.decode_bytes_desc, quoted),
        temporal.TIMESTAMP: (_timestamp, _show_timestamp),
        temporal.INTERVAL: (temporal.decode_interval_asc, _show_interval),
        temporal.TIMETZ: (temporal.decode_timetz_asc, _show_timetz),
        bit_strings.ASC: (bit_strings.decode_bits_asc, lambda bits: f"B{bits}"),
        bit_strings.DESC: (bit_strings.decode_bits_desc, lambda bits: f"B{bits}"),
        boxes.MARKER: (boxes.decode_box_asc, _show_box),
    }
    readers |= dict.fromkeys(float_markers, (floats.decode_float_asc, general_text))
    readers |= dict.fromkeys(decimals.MARKERS, (decimals.decode_decimal_asc, str))
    readers |= dict.fromkeys(integers.MARKERS, (_integer, str))
    return readers


_READERS: Final = _readers()

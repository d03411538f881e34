"""Times in keys: TIMESTAMP, TIMETZ and INTERVAL, each a marker and key integers.

DATE and TIME are plain key integers. Descending forms keep the marker and complement the integers.
Source: CockroachDB pkg/util/encoding/encoding.go, pkg/util/duration.
"""

from __future__ import annotations

from typing import Final

from tidegate.errors import EncodingError
from tidegate.hlc import NANOS_PER_SECOND
from tidegate.rows.keyside.integers import (
    decode_varint_asc,
    decode_varint_desc,
    encode_varint_asc,
    encode_varint_desc,
)
from tidegate.rows.take import Decode, marker_at
from tidegate.rows.types import Interval, TimeTz

TIMESTAMP: Final = 0x14
INTERVAL_BIG_NEGATIVE: Final = 0x15
INTERVAL: Final = 0x16
INTERVAL_BIG_POSITIVE: Final = 0x17
TIMETZ: Final = 0x3C

_MICROS_PER_SECOND: Final = 1_000_000
_NANOS_PER_DAY: Final = 24 * 3600 * NANOS_PER_SECOND
_DAYS_PER_MONTH: Final = 30  # used for the order of intervals, not for adding them


def encode_timestamp_asc(nanos: int) -> bytes:
    """Encode nanoseconds since 1970 as whole seconds, and the remaining 0..999,999,999 nanoseconds."""
    seconds, rest = divmod(nanos, NANOS_PER_SECOND)
    return b"\x14" + encode_varint_asc(seconds) + encode_varint_asc(rest)


def encode_timestamp_desc(nanos: int) -> bytes:
    """Encode as `encode_timestamp_asc` does, but later times sort first."""
    seconds, rest = divmod(nanos, NANOS_PER_SECOND)
    return b"\x14" + encode_varint_desc(seconds) + encode_varint_desc(rest)


def decode_timestamp_asc(buffer: bytes, position: int) -> tuple[int, int]:
    """Undo `encode_timestamp_asc`. Raises `EncodingError` when malformed."""
    return _decode_timestamp(buffer, position, decode_varint_asc)


def decode_timestamp_desc(buffer: bytes, position: int) -> tuple[int, int]:
    """Undo `encode_timestamp_desc`. Raises `EncodingError` when malformed."""
    return _decode_timestamp(buffer, position, decode_varint_desc)


def encode_timetz_asc(time: TimeTz) -> bytes:
    """Encode the instant in UTC first, then the offset."""
    instant = time.micros + time.offset_seconds * _MICROS_PER_SECOND
    return b"\x3c" + encode_varint_asc(instant) + encode_varint_asc(time.offset_seconds)


def encode_timetz_desc(time: TimeTz) -> bytes:
    """Encode as `encode_timetz_asc` does, but later times sort first."""
    instant = time.micros + time.offset_seconds * _MICROS_PER_SECOND
    return b"\x3c" + encode_varint_desc(instant) + encode_varint_desc(time.offset_seconds)


def decode_timetz_asc(buffer: bytes, position: int) -> tuple[TimeTz, int]:
    """Undo `encode_timetz_asc`. Raises `EncodingError` when malformed."""
    return _decode_timetz(buffer, position, decode_varint_asc)


def decode_timetz_desc(buffer: bytes, position: int) -> tuple[TimeTz, int]:
    """Undo `encode_timetz_desc`. Raises `EncodingError` when malformed."""
    return _decode_timetz(buffer, position, decode_varint_desc)


def encode_interval_asc(interval: Interval) -> bytes:
    """Encode an interval as three numbers: the total in nanoseconds, the months, and the days.

    In the total a month has 30 days and a day has 24 hours.
    """
    integers = (_total_nanos(interval), interval.months, interval.days)
    return b"\x16" + b"".join(map(encode_varint_asc, integers))


def encode_interval_desc(interval: Interval) -> bytes:
    """Encode as `encode_interval_asc` does, but longer intervals sort first."""
    integers = (_total_nanos(interval), interval.months, interval.days)
    return b"\x16" + b"".join(map(encode_varint_desc, integers))


def decode_interval_asc(buffer: bytes, position: int) -> tuple[Interval, int]:
    """Undo `encode_interval_asc`. Raises `EncodingError` when malformed or beyond 64 bits."""
    return _decode_interval(buffer, position, decode_varint_asc)


def decode_interval_desc(buffer: bytes, position: int) -> tuple[Interval, int]:
    """Undo `encode_interval_desc`. Raises `EncodingError` when malformed or beyond 64 bits."""
    return _decode_interval(buffer, position, decode_varint_desc)


def _decode_timestamp(buffer: bytes, position: int, integer: Decode) -> tuple[int, int]:
    _expect(TIMESTAMP, "a timestamp", buffer, position)
    seconds, middle = integer(buffer, position + 1)
    rest, end = integer(buffer, middle)
    return seconds * NANOS_PER_SECOND + second_fraction(rest), end


def second_fraction(nanos: int) -> int:
    """Return ``nanos`` if it is less than a second. Raises `EncodingError` otherwise."""
    if not 0 <= nanos < NANOS_PER_SECOND:
        raise EncodingError(f"a timestamp has {nanos} nanoseconds in its last second")
    return nanos


def _decode_timetz(buffer: bytes, position: int, integer: Decode) -> tuple[TimeTz, int]:
    _expect(TIMETZ, "a time with zone", buffer, position)
    instant, middle = integer(buffer, position + 1)
    offset, end = integer(buffer, middle)
    return TimeTz(instant - offset * _MICROS_PER_SECOND, offset), end


def _decode_interval(buffer: bytes, position: int, integer: Decode) -> tuple[Interval, int]:
    _expect(INTERVAL, "an interval of less than 292 years", buffer, position)
    total, second = integer(buffer, position + 1)
    months, third = integer(buffer, second)
    days, end = integer(buffer, third)
    return Interval(months, days, total - _total_nanos(Interval(months, days, 0))), end


def _total_nanos(interval: Interval) -> int:
    days = interval.months * _DAYS_PER_MONTH + interval.days
    return days * _NANOS_PER_DAY + interval.nanos


def _expect(marker: int, what: str, buffer: bytes, position: int) -> None:
    found = marker_at(buffer, position)
    if found != marker:
        raise EncodingError(f"byte 0x{found:02x} at offset {position} does not begin {what}")

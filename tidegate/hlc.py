"""Hybrid logical clock timestamps, and the kinds of timestamp that must not be confused.

A timestamp is a pair (wall, logical): nanoseconds since the Unix epoch and a counter that orders
events within one nanosecond. Order is that of the pair. ``Timestamp`` is a named tuple because
timestamps are created and compared for every record: comparison of tuples runs in C.

Source: CockroachDB ``pkg/util/hlc`` (text form of cursors and changefeeds: ``<wall>.<logical, 10
digits>``).
"""

from __future__ import annotations

from typing import Final, NamedTuple, NewType

MAX_LOGICAL: Final = 2**31 - 1
NANOS_PER_SECOND: Final = 1_000_000_000
NANOS_PER_MS: Final = 1_000_000
_LOGICAL_DIGITS: Final = 10
_MAX_WALL_DIGITS: Final = 19
_SHOWN: Final = 40  # characters of a text that is no timestamp, and may have any length


class Timestamp(NamedTuple):
    """A point of HLC time: ``wall`` in nanoseconds since 1970, ``logical`` a 31-bit counter."""

    wall: int
    logical: int = 0

    def next(self) -> Timestamp:
        """Return the smallest timestamp above this one."""
        if self.logical == MAX_LOGICAL:
            return Timestamp(self.wall + 1, 0)
        return Timestamp(self.wall, self.logical + 1)

    def prev(self) -> Timestamp:
        """Return the largest timestamp below this one; ``ValueError`` for zero."""
        if self.logical > 0:
            return Timestamp(self.wall, self.logical - 1)
        if self.wall > 0:
            return Timestamp(self.wall - 1, MAX_LOGICAL)
        raise ValueError("there is no timestamp below zero")

    def floor(self) -> Timestamp:
        """Return the same wall time with the logical part set to zero."""
        return Timestamp(self.wall, 0)

    def decimal(self) -> str:
        """Return the text of ``updated``, ``resolved`` and ``cursor``: ``1.0000000002`` for (1, 2)."""
        return f"{self.wall}.{self.logical:010d}"

    @property
    def wall_ms(self) -> int:
        """The wall part in milliseconds, rounded down: a Kafka record time."""
        return self.wall // NANOS_PER_MS

    def __str__(self) -> str:
        return self.decimal()


ZERO: Final = Timestamp(0, 0)
MAX: Final = Timestamp(2**63 - 1, MAX_LOGICAL)

#: The range writes nothing new at or below it any more. An open intent may still commit there.
ClosedTimestamp = NewType("ClosedTimestamp", Timestamp)
#: No new row at or below it will be emitted any more, only copies of rows that were emitted before.
ResolvedTimestamp = NewType("ResolvedTimestamp", Timestamp)

ZERO_CLOSED: Final = ClosedTimestamp(ZERO)
ZERO_RESOLVED: Final = ResolvedTimestamp(ZERO)


def parse_decimal(text: str) -> Timestamp:
    """Parse the text form: ``<wall>`` or ``<wall>.<logical>``, where the logical part has ten digits.

    Raises ``ValueError``, which shows the value, for anything else. The value need not be a text: JSON and
    Avro that somebody else wrote may have any value here.
    """
    if not isinstance(text, str):
        raise ValueError(f"not an HLC timestamp: {_shown(text)} (expected text)")  # noqa: TRY004 - as of other text
    wall, dot, logical = text.partition(".")
    well_formed = wall.isascii() and wall.isdigit()
    if dot:
        well_formed = (
            well_formed and len(logical) == _LOGICAL_DIGITS and logical.isascii() and logical.isdigit()
        )
    if not well_formed:
        raise ValueError(f"not an HLC timestamp: {_shown(text)} (expected <nanoseconds>.<10-digit logical>)")
    # Python refuses to convert more than 4,300 digits. For n digits below that it needs time n * n.
    if len(wall.lstrip("0")) > _MAX_WALL_DIGITS:
        raise ValueError(f"HLC timestamp out of range: {_shown(text)}")
    timestamp = Timestamp(int(wall.lstrip("0") or "0"), int(logical or 0))
    if timestamp.wall > MAX.wall or timestamp.logical > MAX_LOGICAL:
        raise ValueError(f"HLC timestamp out of range: {_shown(text)}")
    return timestamp


def _shown(value: object) -> str:
    if not isinstance(value, str | int | float | None) or (isinstance(value, int) and abs(value) > MAX.wall):
        return f"a {type(value).__name__}"
    if isinstance(value, str) and len(value) > _SHOWN:
        return f"{value[:_SHOWN]!r}..."
    return repr(value)

"""A source that is written from docs/log-contract.md and the two message files alone.

It shares no code with tidegate: it has its own protobuf writer, and its own encoders of keys and values. So
it shows that the page is enough to write a source in another language. Each function is named for a part of
the page.
"""

from __future__ import annotations

import struct
from collections import Counter
from typing import Final, NamedTuple, TypeAlias
from zlib import crc32

BEGIN_MS: Final = 1_700_000_000_000
PARTITIONS: Final = 2
TABLE_ID: Final = 200  # above 109, so that its key has more than one byte
INT, STRING = 3, 6
Columns: TypeAlias = list[tuple[int, int | str]]


class Written(NamedTuple):
    """A record of the log topic."""

    partition: int
    offset: int
    key: bytes
    value: bytes
    time_ms: int


# ---- protobuf ----


def low_first(number: int) -> bytes:
    """Return a number in 7-bit groups, the low group first: protobuf's own numbers, and INTs in values."""
    number &= (1 << 64) - 1
    groups = b""
    while number > 0x7F:
        groups += bytes([number & 0x7F | 0x80])
        number >>= 7
    return groups + bytes([number])


def field(number: int, value: int | str | bytes) -> bytes:
    """Return a field of a message; a number that is zero is absent."""
    if isinstance(value, int):
        return low_first(number << 3) + low_first(value) if value else b""
    data = value.encode() if isinstance(value, str) else value
    return low_first(number << 3 | 2) + low_first(len(data)) + data


def timestamp(ms: int) -> bytes:
    """Return a Timestamp, ``ms`` after ``BEGIN_MS``."""
    return field(1, (BEGIN_MS + ms) * 1_000_000)


def span(start: bytes, end: bytes) -> bytes:
    """Return a Span."""
    return field(3, start) + field(4, end)


# ---- keys and values ----


def key_integer(number: int) -> bytes:
    """Return an integer of a key."""
    if 0 <= number <= 109:
        return bytes([0x88 + number])
    size = (abs(number).bit_length() + 7) // 8
    if number > 0:
        return bytes([0xF5 + size]) + number.to_bytes(size, "big")
    return bytes([0x88 - size]) + (number & ((1 << 8 * size) - 1)).to_bytes(size, "big")


def key_string(text: str) -> bytes:
    """Return a string of a key."""
    return b"\x12" + text.encode().replace(b"\0", b"\0\xff") + b"\0\x01"


TABLE_START, TABLE_END = key_integer(TABLE_ID), key_integer(TABLE_ID + 1)


def row_prefix(number: int) -> bytes:
    """Return what the keys of all rows with this number begin with."""
    return TABLE_START + key_integer(1) + key_integer(number)


def row_key(number: int, text: str) -> bytes:
    """Return the key of a row (number, text)."""
    return row_prefix(number) + key_string(text) + b"\x88"


def high_first(number: int) -> bytes:
    """Return a number in 7-bit groups, the high group first: tags and lengths in values."""
    groups = bytes([number & 0x7F])
    while number := number >> 7:
        groups = bytes([number & 0x7F | 0x80]) + groups
    return groups


def row_value(key: bytes, columns: Columns) -> bytes:
    """Return the value of a row, with its checksum."""
    body, before = b"\x0a", 0
    for column_id, datum in columns:
        kind = INT if isinstance(datum, int) else STRING
        body += high_first((column_id - before) * 16 + kind)
        before = column_id
        if isinstance(datum, int):
            body += low_first((datum << 1) ^ (datum >> 63))
        else:
            body += high_first(len(datum.encode())) + datum.encode()
    return crc32(key + body).to_bytes(4, "big") + body


def batched(key: bytes, ms: int, value: bytes) -> bytes:
    """Return a write batch that sets one version."""
    stored = key + b"\0" + struct.pack(">Q", (BEGIN_MS + ms) * 1_000_000) + b"\x09"
    record = b"\x01" + low_first(len(stored)) + stored + low_first(len(value)) + value
    return struct.pack("<QI", 0, 1) + record


# ---- descriptors ----


def _column(column_id: int, name: str, kind: str, *, nullable: bool = True) -> bytes:
    sql_type = field(1, kind) + field(2, 64 if kind == "INT" else 0)
    return field(
        6, field(1, column_id) + field(2, name) + field(3, sql_type) + field(4, nullable) + field(6, 1)
    )


#: u (n INT, t STRING, i INT, s STRING, z INT, PRIMARY KEY (n, t)); the id of z is far above that of s.
DESCRIPTOR: Final = b"\x01" + b"".join(
    (
        field(1, TABLE_ID) + field(2, "u") + field(3, 1) + field(4, (BEGIN_MS - 60_000) * 1_000_000),
        _column(1, "n", "INT", nullable=False) + _column(2, "t", "STRING", nullable=False),
        _column(3, "i", "INT") + _column(4, "s", "STRING") + _column(14, "z", "INT"),
        field(7, field(1, 1)) + field(7, field(1, 2)),
        field(8, field(2, "primary") + b"".join(field(3, column_id) for column_id in (1, 2, 3, 4, 14))),
        field(10, "defaultdb") + field(11, "public"),
    )
)
_UPDATE: Final = field(1, TABLE_ID) + field(2, 1) + field(3, timestamp(-60_000)) + field(4, DESCRIPTOR)


# ---- ops ----


def write_value(key: bytes, ms: int, value: bytes | None, previous: bytes = b"") -> bytes:
    """Return the op; without ``value`` it stands in the write batch."""
    own = b"" if value is None else field(3, value)
    return field(1, field(1, key) + field(2, timestamp(ms)) + own + field(4, previous))


def write_intent(txn: bytes, anchor: bytes, ms: int) -> bytes:
    """Return the op."""
    return field(2, field(1, txn) + field(2, anchor) + field(3, timestamp(ms)) + field(4, timestamp(ms)))


def update_intent(txn: bytes, ms: int) -> bytes:
    """Return the op."""
    return field(3, field(1, txn) + field(2, timestamp(ms)))


def commit_intent(txn: bytes, key: bytes, ms: int, value: bytes, previous: bytes = b"") -> bytes:
    """Return the op."""
    return field(
        4, field(1, txn) + field(2, key) + field(3, timestamp(ms)) + field(4, value) + field(5, previous)
    )


def abort_intent(txn: bytes) -> bytes:
    """Return the op."""
    return field(5, field(1, txn))


# ---- entries ----

SPLIT: Final = field(13, field(3, b""))
MERGE: Final = field(13, field(4, b""))
NO_MUTATION: Final = field(11, b"")


def open_intent(txn: bytes, anchor: bytes, key: bytes, ms: int) -> bytes:
    """Return an open intent of a Snapshot."""
    return field(5, field(1, txn) + field(2, anchor) + field(3, key) + field(4, timestamp(ms)))


def parent(range_id: int, generation: int, last_index: int) -> bytes:
    """Return a parent of a Snapshot."""
    return field(7, field(1, range_id) + field(2, generation) + field(3, last_index))


class PageSource:
    """The log that it has written: ``records``, in the order in which they were written."""

    def __init__(self) -> None:
        self.records: list[Written] = []
        self._ends: Counter[int] = Counter()
        for partition in range(PARTITIONS):
            self._put(partition, 0, 0, field(8, _UPDATE))

    def command(
        self,
        place: tuple[int, int, int],
        ms: int,
        ops: tuple[bytes, ...] = (),
        closed: int | None = None,
        more: bytes = b"",
    ) -> None:
        """Write a command; ``place`` is its range, generation and index, ``more`` are other fields of it."""
        log = field(15, b"".join(field(1, op) for op in ops))
        told = b"" if closed is None else field(17, timestamp(closed))
        self._entry(place, ms, 4, more + log + told)

    def heartbeat(self, place: tuple[int, int, int], ms: int, closed: int) -> None:
        """Write a Heartbeat; the index in ``place`` is what it covers."""
        self._entry(place, ms, 6, field(1, timestamp(closed)) + field(2, place[2]))

    def snapshot(
        self,
        place: tuple[int, int, int],
        ms: int,
        keys: tuple[bytes, bytes],
        closed: int,
        high: int | None,
        reason: int,
        more: bytes = b"",
    ) -> None:
        """Write a Snapshot or a chunk of one; ``more`` are its intents, parents and numbers of chunks."""
        highest = b"" if high is None else field(3, timestamp(high))
        body = field(1, span(*keys)) + field(2, timestamp(closed)) + highest + more + field(8, reason)
        self._entry(place, ms, 5, body + NO_MUTATION)

    def end(self, place: tuple[int, int, int], ms: int) -> None:
        """Write a RangeEnd."""
        self._entry(place, ms, 9, field(1, place[2]))

    def repeat(self, count: int) -> None:
        """Write the last records again, as after a crash."""
        for record in self.records[-count:]:
            self._append(record.partition, record.key, record.value, record.time_ms)

    def _entry(self, place: tuple[int, int, int], ms: int, kind: int, body: bytes) -> None:
        range_id, generation, index = place
        head = field(1, range_id) + field(2, generation) + field(3, index)
        self._put(range_id % PARTITIONS, range_id, ms, head + field(kind, body))

    def _put(self, partition: int, range_id: int, ms: int, value: bytes) -> None:
        self._append(partition, range_id.to_bytes(8, "big"), value, BEGIN_MS + ms)

    def _append(self, partition: int, key: bytes, value: bytes, time_ms: int) -> None:
        self.records.append(Written(partition, self._ends[partition], key, value, time_ms))
        self._ends[partition] += 1

"""Tuple bodies: the columns of a family, each after a tag with the difference between its id and the last id.

Columns stand in the order of their ids, and NULL is left out. Source: CockroachDB docs/tech-notes/encoding.md
(TUPLE encoding).
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Any, Final

from tidegate.errors import EncodingError
from tidegate.rows.descriptor import Column
from tidegate.rows.take import Decode
from tidegate.rows.valueside.datums import value_codec
from tidegate.rows.valueside.tags import WireType, decode_tag, encode_tag, skip_datum

_WIRE_BITS: Final = 8  # a dictionary key has the wire type in these bits, and the column id above them
_EXTENDED: Final = 0x0F


class TupleCodec:
    """Reads and writes the columns of one table in tuple bodies; compiled once per descriptor version."""

    __slots__ = ("_columns", "_encoders", "_full", "_readers")

    def __init__(self, columns: Sequence[Column], in_key: Set[int] = frozenset()) -> None:
        """``in_key`` are the ids of the columns that are in the key."""
        self._columns = {column.id: column for column in columns}
        self._readers: dict[int, tuple[int, Decode]] = {}
        self._encoders = []
        for slot, column in enumerate(columns):
            codec = value_codec(column.type)
            for wire_type, decode in codec.decoders.items():
                self._readers[column.id << _WIRE_BITS | wire_type] = (slot, decode)
            self._encoders.append((column, slot, codec.encode))
        self._encoders.sort(key=lambda entry: entry[0].id)
        self._full = self._full_row(in_key)

    def read_into(self, slots: list[Any], body: bytes, position: int) -> None:
        """Put the body's datums into ``slots``, one slot for each column that the codec was made for.

        Other columns are passed over. Raises `EncodingError` for a malformed body, or for a datum whose wire
        type its column cannot have.
        """
        end = len(body)
        column_id = 0
        for tag, full_id, slot, decode in self._full:
            if position >= end or body[position] != tag:
                break
            slots[slot], position = decode(body, position + 1)
            column_id = full_id
        readers = self._readers
        while position < end:
            tag = body[position]
            wire_type = tag & _EXTENDED
            if tag < 0x80 and wire_type != _EXTENDED:
                column_id += tag >> 4
                position += 1
            else:
                delta, wire_type, position = decode_tag(body, position)
                column_id += delta
            reader = readers.get(column_id << _WIRE_BITS | wire_type)
            if reader is None:
                position = self._pass_over(column_id, wire_type, body, position)
            else:
                slot, decode = reader
                slots[slot], position = decode(body, position)

    def write(self, slots: Sequence[Any], included: Set[int]) -> bytes:
        """Return the body that holds the datums of the ``included`` slots, without those that are ``None``.

        Raises `EncodingError`, which names the column, for a datum that is not of the column's type.
        """
        parts: list[bytes] = []
        last_id = 0
        for column, slot, encode in self._encoders:
            if slot not in included or slots[slot] is None:
                continue
            try:
                wire_type, data = encode(slots[slot])
            except (TypeError, AttributeError, ValueError) as error:
                raise EncodingError(f"column {column.name} ({column.type.kind.value}): {error}") from error
            parts.append(encode_tag(column.id - last_id, wire_type) + data)
            last_id = column.id
        return b"".join(parts)

    def _full_row(self, in_key: Set[int]) -> tuple[tuple[int, int, int, Decode], ...]:
        """Return (tag, column id, slot, reader) for the first columns of a row without NULLs.

        Most rows begin with these tags, and then need only one comparison for each column. Key columns are
        left out, since the value has them only sometimes. The list ends before the first tag of more than one
        byte, and before the first type with several wire types, whose tag cannot be predicted.
        """
        full: list[tuple[int, int, int, Decode]] = []
        last_id = 0
        for column, slot, _ in self._encoders:
            if column.id in in_key:
                continue
            wire_type, *others = sorted(value_codec(column.type).decoders.keys() - {WireType.NULL})
            tag = encode_tag(column.id - last_id, wire_type)
            if others or len(tag) > 1:
                break
            _, decode = self._readers[column.id << _WIRE_BITS | wire_type]
            full.append((tag[0], column.id, slot, decode))
            last_id = column.id
        return tuple(full)

    def _pass_over(self, column_id: int, wire_type: int, body: bytes, position: int) -> int:
        column = self._columns.get(column_id)
        if column is not None:
            raise EncodingError(
                f"column {column.name} ({column.type.kind.value}) holds a datum of wire type {wire_type}"
            )
        return skip_datum(body, position, wire_type)

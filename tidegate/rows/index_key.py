"""Reads and writes the columns in the keys of one index."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tidegate.errors import EncodingError
from tidegate.rows.keyside.datums import KeyCodec
from tidegate.rows.keyside.integers import decode_uvarint_asc, encode_uvarint_asc
from tidegate.rows.table_key import index_prefix, shortened, table_start


class IndexKeyCodec:
    """Reads and writes the keys of one index up to the family suffix; compiled once per index."""

    __slots__ = ("_codecs", "_decoders", "_prefix_size", "_table_prefix", "prefix")

    def __init__(self, table_id: int, index_id: int, codecs: Sequence[KeyCodec]) -> None:
        self.prefix = index_prefix(table_id, index_id)
        self._prefix_size = len(self.prefix)
        self._table_prefix = encode_uvarint_asc(table_id)
        self._codecs = tuple(codecs)
        self._decoders = tuple(codec.decode for codec in codecs)

    def read(self, key: bytes) -> tuple[list[Any], int] | None:
        """Return the key's datums in index order, and the position after them; ``None`` for another index.

        Accepts keys with and without a tenant prefix. Raises `EncodingError` for a malformed key and for a
        key of another table.
        """
        position = self._prefix_size if key.startswith(self.prefix) else self._columns_start(key)
        if position < 0:
            return None
        datums: list[Any] = []
        for decode in self._decoders:
            datum, position = decode(key, position)
            datums.append(datum)
        return datums, position

    def write(self, datums: Sequence[Any]) -> bytes:
        """Return the key of the datums, without tenant prefix and family suffix.

        Raises `EncodingError` for a datum that is not of its column's type.
        """
        parts = [self.prefix]
        for codec, datum in zip(self._codecs, datums, strict=True):
            try:
                parts.append(codec.encode(datum))
            except (TypeError, AttributeError, ValueError) as error:
                raise EncodingError(f"{datum!r} in a key: {error}") from error
        return b"".join(parts)

    def _columns_start(self, key: bytes) -> int:
        """Return where the columns begin in a key with a tenant prefix; -1 if the key is of another index."""
        start = table_start(key)
        if key.startswith(self.prefix, start):
            return start + self._prefix_size
        if key.startswith(self._table_prefix, start):
            decode_uvarint_asc(key, start + len(self._table_prefix))  # raises for a key that is cut there
            return -1
        raise EncodingError(f"{shortened(key)} is no key of an index of this table")

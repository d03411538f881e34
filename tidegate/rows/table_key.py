"""The fixed parts of a row's key: tenant prefix, table id and index id before the columns, the family after
them.

    key = [0xfe tenant id] table id | index id | index columns | family suffix

Source: CockroachDB pkg/keys (constants.go, sql.go).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from tidegate.errors import EncodingError
from tidegate.rows.keyside.integers import decode_uvarint_asc, encode_uvarint_asc
from tidegate.spans import Span

TENANT: Final = 0xFE
TABLES_END: Final = bytes((TENANT,))  # above every key of a table without a tenant prefix
FAMILY_ZERO: Final = b"\x88"  # one byte: no column id, and no length after it

_SMALL_FIRST: Final = 0x88
_SMALL_LAST: Final = 0xF5
_ONE_BYTE_MORE: Final = 0xF6
_TWO_BYTES_MORE: Final = 0xF7


def table_start(key: bytes) -> int:
    """Return the position where the table id begins: after the tenant prefix, if there is one."""
    if key[:1] == b"\xfe":
        _, end = decode_uvarint_asc(key, 1)
        return end
    return 0


def table_id_of(key: bytes) -> int:
    """Return the table that a key belongs to, with or without a tenant prefix.

    Raises `EncodingError` for a key of no table (system and local keys, cut keys).
    """
    try:
        first = key[0]
        if _SMALL_FIRST <= first <= _SMALL_LAST:
            return first - _SMALL_FIRST
        if first == _ONE_BYTE_MORE:
            return key[1]
        if first == _TWO_BYTES_MORE:
            return key[1] << 8 | key[2]
        table_id, _ = decode_uvarint_asc(key, table_start(key))
    except (IndexError, EncodingError):
        raise EncodingError(f"{shortened(key)} is no key of a table") from None
    return table_id


def table_span(table_id: int) -> Span:
    """Return all keys of a table, without tenant prefix. The descriptor says which index holds the rows."""
    return Span(encode_uvarint_asc(table_id), encode_uvarint_asc(table_id + 1))


def index_prefix(table_id: int, index_id: int) -> bytes:
    """Return the bytes with which all keys of an index begin, without tenant prefix."""
    return encode_uvarint_asc(table_id) + encode_uvarint_asc(index_id)


def index_span(table_id: int, index_id: int) -> Span:
    """Return all keys of an index, without tenant prefix."""
    prefix = index_prefix(table_id, index_id)
    return Span(prefix, prefix_end(prefix))


def tenant_prefix(tenant_id: int) -> bytes:
    """Return the bytes with which all keys of a secondary tenant begin."""
    return bytes((TENANT,)) + encode_uvarint_asc(tenant_id)


def without_tenant(span: Span) -> Span:
    """Return the span of a range as feeds watch it: without the tenant prefix with which ``span`` begins.

    If a span ends after the last key of that tenant, the returned span goes to the end of all tables' keys. A
    span that does not begin with a tenant prefix stays as it is.
    """
    try:
        behind = table_start(span.start)
    except EncodingError:
        return span  # the span begins before the first tenant's keys
    if not behind:
        return span
    prefix, start = span.start[:behind], span.start[behind:]
    if span.end.startswith(prefix):
        return Span(start, span.end[behind:])
    # no table has these keys, so nobody watches them
    return Span(start, TABLES_END) if start < TABLES_END else span


def watched_parts(span: Span, watched: Iterable[Span]) -> Iterator[Span]:
    """Yield the parts of a range's span that lie in ``watched``.

    Watched spans have no tenant prefix. The parts have the tenant prefix of the range.
    """
    try:
        prefix = span.start[: table_start(span.start)]
    except EncodingError:
        prefix = b""
    own = without_tenant(span)
    for other in watched:
        part = own.intersect(other)
        shared = None if part is None else Span(prefix + part.start, prefix + part.end).intersect(span)
        if shared is not None:
            yield shared


def encode_family_suffix(family_id: int) -> bytes:
    """Return the bytes at the end of a row's key that name one column family."""
    if family_id == 0:
        return FAMILY_ZERO
    encoded = encode_uvarint_asc(family_id)
    return encoded + encode_uvarint_asc(len(encoded))


def decode_family_suffix(key: bytes, position: int) -> int:
    """Return the family id from the end of ``key``. The suffix begins at ``position``, after the columns.

    Raises `EncodingError` if the bytes there are no family suffix.
    """
    if key[position:] == FAMILY_ZERO:
        return 0
    family_id, _ = decode_uvarint_asc(key, position)
    if key[position:] != encode_family_suffix(family_id):
        raise EncodingError(f"0x{key[position:].hex()} behind the key columns is no family suffix")
    return family_id


def prefix_end(prefix: bytes) -> bytes:
    """Return the lowest key above every key that begins with ``prefix``.

    For example, ``61 ff`` gives ``62``: the last byte that can be raised is raised, and the bytes after it
    are dropped. If all bytes are 0xff, the prefix stays as it is. The empty prefix gives ``ff ff``, the end
    of the key space. Source: CockroachDB pkg/roachpb (Key.PrefixEnd).
    """
    if not prefix:
        return b"\xff\xff"
    kept = prefix.rstrip(b"\xff")
    if not kept:
        return prefix
    return kept[:-1] + bytes((kept[-1] + 1,))


def shortened(key: bytes, limit: int = 40) -> str:
    """Return a key in hexadecimal for messages, cut to ``limit`` bytes."""
    text = key[:limit].hex()
    return f"0x{text}..." if len(key) > limit else f"0x{text}"

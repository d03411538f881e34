"""Cases of whole key-value pairs: ``kv.primary`` and ``kv.secondary``."""

from __future__ import annotations

from typing import Any, Final

from tests.conformance.case import Case, Check
from tests.conformance.family_entry import FamilyEntryCodec, has_collated_key
from tests.conformance.form import same_scale
from tests.conformance.index_entry import IndexEntryCodec
from tests.conformance.literals import datum_of
from tests.conformance.stored_pairs import as_written
from tests.conformance.table_text import TableText, parse_last_table, parse_table
from tidegate.errors import EncodingError, RowError
from tidegate.rows import Kind, TableCodec, table_id_of
from tidegate.rows.keyside.datums import key_codec
from tidegate.rows.keyside.integers import decode_uvarint_asc
from tidegate.rows.pretty import pretty_key
from tidegate.rows.table_key import decode_family_suffix, index_prefix, table_start
from tidegate.rows.value_frame import unseal
from tidegate.rows.valueside.tuples import TupleCodec


def _check_primary(case: Case) -> str | None:
    return _primary_difference(case, written=True)


def _check_primary_read(case: Case) -> str | None:
    """A pair that is read, and that nobody writes any more."""
    return _primary_difference(case, written=False)


def _primary_difference(case: Case, *, written: bool) -> str | None:
    if "/#/" in pretty_key(bytes.fromhex(case["key_hex"])):
        return _check_interleaved(case)
    key, value, table = _parts(case)
    codec = FamilyEntryCodec(table)
    family_id, entry = codec.decode(key, value)
    expected = _expected(table, case)
    if entry is None:
        marked = case["value"].get("tombstone") or case["value"].get("deleted")
        return None if marked else f"expected {expected}, found a tombstone"
    failure = _difference(expected, entry) or _pretty_difference(case, key)
    if failure is not None:
        return failure
    stored = as_written(table, key, value)
    return (_encoded_difference(codec, family_id, expected, stored) if written else None) or _row_difference(
        (key, value), table, expected, stored if written else None
    )


def _encoded_difference(
    codec: FamilyEntryCodec, family_id: int, expected: dict[str, Any], stored: tuple[bytes, bytes]
) -> str | None:
    key = stored[0] if has_collated_key(codec.table) else codec.encode_key(family_id, expected)
    return _written_difference((key, codec.encode_value(stored[0], family_id, expected)), stored)


def _check_secondary(case: Case) -> str | None:
    key, value, table = _parts(case)
    codec = _index_entry_codec(table, key)
    entry, expected = codec.decode(key, value), _expected(table, case)
    failure = _difference(expected, entry) or _pretty_difference(case, key)
    if failure is not None:
        return failure
    written = (key, codec.encode_value(key, expected)) if _is_collated(table) else codec.encode(expected)
    failure = _written_difference(written, (key, value))
    if failure is None and TableCodec(table.descriptor).decode(key, value) is not None:
        failure = "a row was decoded out of an index entry"
    return failure


def _refused(case: Case) -> str | None:
    """Bytes under a key that no reader may take for an entry."""
    key, value, table = _parts(case)
    try:
        codec = TableCodec(table.descriptor)
        row = codec.decode(key, value)
        entry = _index_entry_codec(table, key).decode(key, value) if row is None else row
    except RowError:
        return None
    return f"expected an error, decoded {entry!r}"


def _parts(case: Case) -> tuple[bytes, bytes, TableText]:
    key = bytes.fromhex(case["key_hex"])
    return key, bytes.fromhex(case["hex"]), parse_table(case["table"], table_id_of(key))


def _index_entry_codec(table: TableText, key: bytes) -> IndexEntryCodec:
    _, position = decode_uvarint_asc(key, table_start(key))
    index_id, _ = decode_uvarint_asc(key, position)
    if index_id not in table.indexes:
        raise EncodingError(f"the table has no index {index_id}")
    return IndexEntryCodec(table, table.indexes[index_id])


def _expected(table: TableText, case: Case) -> dict[str, Any]:
    """The case's datums by column name, given as an object or as text: ``owner Ted, id 1``."""
    value = case["value"]
    if "index_row" in value:
        pairs = (part.strip().split(" ", 1) for part in value["index_row"].split(","))
        value = {name: None if text == "NULL" else text for name, text in pairs}
    types = {column.name: column.type for column in table.descriptor.columns}
    return {name: datum_of(types[name], datum) for name, datum in value.items() if name in types}


def _difference(expected: dict[str, Any], entry: dict[str, Any]) -> str | None:
    for name in {**expected, **entry}:
        if not same_scale(expected.get(name), entry.get(name)):
            return f"column {name}: expected {expected.get(name)!r}, decoded {entry.get(name)!r}"
    return None


def _pretty_difference(case: Case, key: bytes) -> str | None:
    expected = case.get("key_pretty", "")
    text = pretty_key(key)
    if not expected or "<" in expected or text == expected:
        return None  # "<Ted>" stands for a collation key that people cannot read
    return f"expected the key {expected}, printed {text}"


def _written_difference(written: tuple[bytes, bytes], stored: tuple[bytes, bytes]) -> str | None:
    for what, one, other in zip(("key", "value"), written, stored, strict=True):
        if one != other:
            return f"{what}: expected {other.hex()}, encoded {one.hex()}"
    return None


def _row_difference(
    pair: tuple[bytes, bytes],
    table: TableText,
    expected: dict[str, Any],
    stored: tuple[bytes, bytes] | None,
) -> str | None:
    """The same pair through `TableCodec`, where it serves the table; ``stored`` is what it writes."""
    if len(table.descriptor.families) > 1:
        return None
    codec = TableCodec(table.descriptor)
    row = codec.decode(*pair)
    if row is None or row.values is None:
        return "no row was decoded"
    names = [column.name for column in table.descriptor.columns]
    failure = _difference(expected, dict(zip(names, row.values, strict=True)))
    if failure is None and stored is not None and not has_collated_key(table):
        failure = _written_difference(codec.encode(expected), stored)
    return failure


def _check_interleaved(case: Case) -> str | None:
    """The row of a child table under its parent's key; a feed of the parent passes over it."""
    key, value, parent = _parts(case)
    child = parse_last_table(case["table"], table_id_of(key))
    datums, position = _read_interleaved(child, key)
    decode_family_suffix(key, position)
    slots: list[Any] = [datums.get(column.name) for column in child.descriptor.columns]
    TupleCodec(child.descriptor.columns).read_into(slots, unseal(key, value), 1)
    names = [column.name for column in child.descriptor.columns]
    failure = _difference(_expected(child, case), dict(zip(names, slots, strict=True)))
    if failure is None and parent.descriptor.name != child.descriptor.name:
        row = TableCodec(parent.descriptor).decode(key, value)
        failure = None if row is None else f"a child's row was taken for {row}"
    return failure or _pretty_difference(case, key)


def _read_interleaved(child: TableText, key: bytes) -> tuple[dict[str, Any], int]:
    """The child's key columns; a mark and the child's ids stand between the parent's columns and its own."""
    position = len(index_prefix(table_id_of(key), 1))
    datums: dict[str, Any] = {}
    for part in child.descriptor.primary_key:
        if key[position : position + 1] == b"\xfe":
            _, position = decode_uvarint_asc(key, position + 1)
            _, position = decode_uvarint_asc(key, position)
        column = child.column(part.column_id)
        datums[column.name], position = key_codec(column.type, part.descending).decode(key, position)
    return datums, position


def _is_collated(table: TableText) -> bool:
    return any(column.type.kind is Kind.COLLATED_STRING for column in table.descriptor.columns)


CHECKS: Final[dict[str, Check]] = {
    "kv.primary": _check_primary,
    "kv.secondary": _check_secondary,
    "kv.primary.decode_only": _check_primary_read,
    "error.kv.primary": _refused,
    "error.kv.secondary": _refused,
}

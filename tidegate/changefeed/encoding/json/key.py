"""Keys: the primary key's columns, or the column that ``key_column`` names, as an array or as an object.

An array has the columns in index order; an object has its members sorted by name. Source: CockroachDB
``pkg/ccl/changefeedccl/encoder_json.go``, ``encodeKeyRaw``.

The log has a deletion's key only in the form of the key-value store: a DECIMAL without its trailing zeros, a
FLOAT without a negative zero. CockroachDB's envelopes print the row's values and the deletion's values as the
log has them, so a row and its deletion can have different keys. In keys for sinks (`key_form.py`) equal
values have equal keys: otherwise neither compaction nor a sink would find the row.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal
from typing import Any, Final, TypeAlias

from tidegate.changefeed.definition.options import FeedOptions
from tidegate.changefeed.encoding.columns import index_in_key, named_column
from tidegate.changefeed.encoding.json.members import column_text
from tidegate.changefeed.encoding.json.template import (
    NULL,
    compile_template,
    constant,
    datum,
    enclosed,
    json_object,
)
from tidegate.changefeed.encoding.key_fault import not_utf8, require_names_of_rows
from tidegate.changefeed.encoding.key_form import KeyForm
from tidegate.changefeed.encoding.key_precision import JSON_KEYS, of_whole_keys
from tidegate.changefeed.encoding.row_templates import Filling, Member, RowPart, Slot
from tidegate.changefeed.text.json_text import TextEncoder, utf8
from tidegate.changefeed.text.surrogates import is_utf8
from tidegate.rows.descriptor import Column, TableDescriptor
from tidegate.rows.row import Row
from tidegate.rows.types import Kind, SqlType

KeyText: TypeAlias = Callable[[Row], str]

#: Decimals of any size, without rounding.
_EXACT: Final = Context(prec=MAX_PREC, Emin=MIN_EMIN, Emax=MAX_EMAX)


def compile_key(table: TableDescriptor, options: FeedOptions, form: KeyForm) -> Callable[[Row], bytes]:
    """Return a printer of a record's key.

    Raises ``UnsupportedTable`` for a key column that has no JSON text or that the table does not have, and in
    keys for sinks for a collated string in the primary key.

    The printer raises ``RowError`` for an INTERVAL finer than a microsecond. In keys for sinks it also raises
    it for text that is not UTF-8.
    """
    text = _key_printer(table, options, form)
    if form is not KeyForm.SINK_OBJECT:
        return lambda row: utf8(text(row))

    def encode(row: Row) -> bytes:
        try:
            return text(row).encode()
        except UnicodeEncodeError:
            column = options.key_column or _first_not_utf8(table, options, form, row)
            raise not_utf8(table.name, column) from None

    return encode


def _first_not_utf8(table: TableDescriptor, options: FeedOptions, form: KeyForm, row: Row) -> str:
    texts = zip(_column_texts(table, options, form).items(), row.key, strict=True)
    return next(name for (name, text), datum in texts if not is_utf8(text(datum)))


def _key_printer(table: TableDescriptor, options: FeedOptions, form: KeyForm) -> KeyText:
    if options.key_column:
        return _column_key(table, options, form)
    return of_whole_keys(table, JSON_KEYS, _primary_key_printer(table, options, form))


def _primary_key_printer(table: TableDescriptor, options: FeedOptions, form: KeyForm) -> KeyText:
    if len(table.primary_key) == 1 and not form.is_object:
        (only,) = _column_texts(table, options, form).values()
        # most tables have such keys; this costs half as much as a template
        return lambda row: f"[{only(row.key[0])}]"
    text = compile_template(primary_key_member(table, options, form))
    return lambda row: text(row.key)


def key_templates(table: TableDescriptor, options: FeedOptions, form: KeyForm) -> tuple[Filling, Filling]:
    """Return the template of the key of a present row, and that of the key of a deletion."""
    if options.key_column:
        return _column_keys(table, options, form)
    primary = Filling(primary_key_member(table, options, form), (RowPart.KEY,))
    return primary, primary


def primary_key_member(table: TableDescriptor, options: FeedOptions, form: KeyForm) -> Member:
    """Return the template of a primary key's datums, in the form of the envelope's keys."""
    texts = _column_texts(table, options, form)
    if form.is_object:
        members = [datum(name, position, text) for position, (name, text) in enumerate(texts.items())]
        return json_object("", members)
    template = f"[{', '.join(['%s'] * len(texts))}]"
    slots = tuple(Slot(position, text) for position, text in enumerate(texts.values()))
    return Member("", template, slots)


def _column_texts(table: TableDescriptor, options: FeedOptions, form: KeyForm) -> dict[str, TextEncoder]:
    """Return the printers of the primary key's columns, in index order."""
    if form is KeyForm.SINK_OBJECT:
        require_names_of_rows(table)
    by_id = {column.id: column for column in table.columns}
    columns = [by_id[part.column_id] for part in table.primary_key]
    return {column.name: _key_text(table, column, options, form) for column in columns}


def _key_text(table: TableDescriptor, column: Column, options: FeedOptions, form: KeyForm) -> TextEncoder:
    text = column_text(table, column, options)
    reduced = _reducer(column.type) if form is KeyForm.SINK_OBJECT else None
    return text if reduced is None else lambda datum: text(reduced(datum))


def _reducer(sql_type: SqlType) -> Callable[[Any], Any] | None:
    """Return a function that makes equal datums of a type identical.

    Return ``None`` for types whose equal datums are identical already.
    """
    match sql_type.kind:
        case Kind.DECIMAL:
            return _reduced_decimal
        case Kind.FLOAT:
            return lambda datum: datum + 0.0
        case Kind.ARRAY if sql_type.element is not None:
            reduced = _reducer(sql_type.element)
            if reduced is not None:
                return lambda datum: tuple([None if item is None else reduced(item) for item in datum])
    return None


def _reduced_decimal(datum: Decimal) -> Decimal:
    return _EXACT.normalize(datum) if datum else Decimal(0)


def _column_key(table: TableDescriptor, options: FeedOptions, form: KeyForm) -> KeyText:
    whole, deleted = (compile_template(each.member) for each in _column_keys(table, options, form))
    return lambda row: deleted(row.key) if row.values is None else whole(row.values)


def _column_keys(table: TableDescriptor, options: FeedOptions, form: KeyForm) -> tuple[Filling, Filling]:
    """Return the templates of keys of ``key_column``: for rows, and for deletions.

    A deletion has the column's value only if the column is in the primary key.
    """
    position, column = named_column(table, options.key_column, "key_column")
    text = _key_text(table, column, options, form)
    whole = _single(form, datum(column.name, position, text))
    index = index_in_key(table, column)
    deleted = _single(form, constant(column.name, NULL) if index is None else datum(column.name, index, text))
    return Filling(whole, (RowPart.VALUES,)), Filling(deleted, (RowPart.KEY,))


def _single(form: KeyForm, member: Member) -> Member:
    return json_object("", [member]) if form.is_object else enclosed("[", member, "]")

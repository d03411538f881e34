"""Keys: the primary key's columns, or the one that ``key_column`` names, as an array or as an object.

An array has the columns in index order, an object has its members sorted by name. Source: CockroachDB
``pkg/ccl/changefeedccl/encoder_json.go``, ``encodeKeyRaw``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from tidegate.changefeed.json_envelopes.columns import column_text, named_column
from tidegate.changefeed.json_envelopes.template import (
    NULL,
    Datums,
    Member,
    Slot,
    compile_template,
    constant,
    datum,
    json_object,
)
from tidegate.changefeed.json_text import TextEncoder
from tidegate.changefeed.options import Envelope, FeedOptions
from tidegate.rows.descriptor import TableDescriptor
from tidegate.rows.row import Row

KeyText: TypeAlias = Callable[[Row], str]

#: Envelopes whose keys are objects, so that a consumer that sees the key alone knows the columns.
OBJECT_KEYS: Final = frozenset({Envelope.ENRICHED, Envelope.UPSERT, Envelope.DEBEZIUM})


def compile_key(table: TableDescriptor, options: FeedOptions) -> KeyText:
    """What prints a record's key. Raises ``UnsupportedTable``."""
    if options.key_column:
        return _column_key(table, options)
    if len(table.primary_key) == 1 and options.envelope not in OBJECT_KEYS:
        (only,) = _column_texts(table).values()
        return lambda row: f"[{only(row.key[0])}]"  # most keys, at half the cost of a template
    text = primary_key_text(table, options)
    return lambda row: text(row.key)


def primary_key_text(table: TableDescriptor, options: FeedOptions) -> Callable[[Datums], str]:
    """What prints a primary key's datums, in the form that the envelope's keys have."""
    texts = _column_texts(table)
    if options.envelope in OBJECT_KEYS:
        members = [datum(name, position, text) for position, (name, text) in enumerate(texts.items())]
        return compile_template(json_object("", members))
    template = f"[{', '.join(['%s'] * len(texts))}]"
    slots = tuple(Slot(position, text) for position, text in enumerate(texts.values()))
    return compile_template(Member("", template, slots))


def _column_texts(table: TableDescriptor) -> dict[str, TextEncoder]:
    """What prints each column of the primary key, in index order."""
    by_id = {column.id: column for column in table.columns}
    columns = [by_id[part.column_id] for part in table.primary_key]
    return {column.name: column_text(table, column) for column in columns}


def _column_key(table: TableDescriptor, options: FeedOptions) -> KeyText:
    """The key of ``key_column``: a deletion knows the column's value only where it is in the primary key."""
    position, column = named_column(table, options.key_column, "key_column")
    text = column_text(table, column)
    whole = _single(options, datum(column.name, position, text))
    index = next((at for at, part in enumerate(table.primary_key) if part.column_id == column.id), None)
    deleted = _single(
        options, constant(column.name, NULL) if index is None else datum(column.name, index, text)
    )
    return lambda row: deleted(row.key) if row.values is None else whole(row.values)


def _single(options: FeedOptions, member: Member) -> Callable[[Datums], str]:
    if options.envelope in OBJECT_KEYS:
        return compile_template(json_object("", [member]))
    return compile_template(member._replace(template=f"[{member.template}]"))

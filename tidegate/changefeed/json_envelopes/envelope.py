"""Rows into key and value bytes: one encoder per table version and feed, made once.

The shapes, for a table (a INT PRIMARY KEY, b STRING):

| envelope | row | deletion |
|---|---|---|
| wrapped | ``{"after": {"a": 1, "b": "x"}}`` | ``{"after": null}`` |
| row | ``{"a": 1, "b": "x"}`` | empty |
| key_only | empty | empty |

The key is ``[1]``: the primary key's columns in index order. ``updated`` and ``mvcc_timestamp`` are members
beside ``after``, or of a ``__crdb__`` object in the row envelope. Source: CockroachDB
``pkg/ccl/changefeedccl/encoder_json.go``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple, TypeAlias

from tidegate.changefeed.json_text import TextEncoder, json_string, text_encoder, utf8
from tidegate.changefeed.options import Envelope, FeedOptions
from tidegate.changefeed.record_encoder import RecordEncoder
from tidegate.errors import UnsupportedTable
from tidegate.hlc import Timestamp
from tidegate.rows.descriptor import Column, TableDescriptor
from tidegate.rows.row import Row
from tidegate.rows.types import Datum

#: The object that carries timestamps where the row's columns stand at the top level.
METADATA_MEMBER: Final = "__crdb__"
#: Where a row's datums are extended by the text of its timestamp.
_STAMP: Final = -1

_Datums: TypeAlias = tuple[Datum, ...]


def compile_json(table: TableDescriptor, options: FeedOptions) -> RecordEncoder:
    """The encoder for a table version. Raises ``UnsupportedTable`` for a table that cannot be emitted."""
    key = _compile_key(table)
    if options.envelope is Envelope.KEY_ONLY:
        return RecordEncoder(lambda row, _: (utf8(key(row.key)), b""))
    columns, stamps = _column_members(table), _stamp_members(options)
    if options.envelope is Envelope.ROW:
        metadata = [_object(METADATA_MEMBER, stamps)] if stamps else []
        whole, deletion = _object("", columns + metadata), None
    else:
        whole = _object("", [_object("after", columns), *stamps])
        deletion = _object("", [_Member("after", "null"), *stamps])
    _refuse_repeated_names(table, options)
    return RecordEncoder(_compile_value(key, whole, deletion, stamped=bool(stamps)))


class _Slot(NamedTuple):
    """A place in a template: which of a row's datums goes there, and how it prints."""

    position: int
    text: TextEncoder


class _Member(NamedTuple):
    """A member of a JSON object: a %-template of its value, and the slots in it from left to right."""

    name: str
    template: str
    slots: tuple[_Slot, ...] = ()


def _object(name: str, members: Iterable[_Member]) -> _Member:
    """An object as a member of another; its own members sorted bytewise by name."""
    # Code point order is UTF-8 byte order.
    ordered = sorted(members, key=lambda member: member.name)
    body = ", ".join(f"{_literal(json_string(member.name))}: {member.template}" for member in ordered)
    return _Member(name, f"{{{body}}}", tuple(slot for member in ordered for slot in member.slots))


def _literal(text: str) -> str:
    return text.replace("%", "%%")


def _column_members(table: TableDescriptor) -> list[_Member]:
    public = (column for column in table.columns if column.public)
    return [
        _Member(column.name, "%s", (_Slot(position, _column_text(table, column)),))
        for position, column in enumerate(public)
    ]


def _stamp_members(options: FeedOptions) -> list[_Member]:
    """The asked-for timestamps; the two are equal while no row comes from a scan or a backfill."""
    asked = {"mvcc_timestamp": options.mvcc_timestamp, "updated": options.updated}
    return [_Member(name, '"%s"', (_Slot(_STAMP, str),)) for name, wanted in asked.items() if wanted]


def _compile_value(
    key: Callable[[_Datums], str], whole: _Member, deletion: _Member | None, *, stamped: bool
) -> Callable[[Row, Timestamp], tuple[bytes, bytes | None]]:
    fill_whole = _compile_template(whole)
    fill_deletion = _compile_template(deletion) if deletion is not None else lambda _: ""

    def encode(row: Row, timestamp: Timestamp) -> tuple[bytes, bytes | None]:
        values = row.values
        stamp: _Datums = (timestamp.decimal(),) if stamped else ()
        text = fill_deletion(stamp) if values is None else fill_whole(values + stamp)
        return utf8(key(row.key)), utf8(text)

    return encode


def _compile_template(member: _Member) -> Callable[[_Datums], str]:
    template, slots = member.template, member.slots

    def fill(datums: _Datums) -> str:
        return template % tuple(
            ["null" if (datum := datums[at]) is None else text(datum) for at, text in slots]
        )

    return fill


def _compile_key(table: TableDescriptor) -> Callable[[_Datums], str]:
    by_id = {column.id: column for column in table.columns}
    texts = [_column_text(table, by_id[part.column_id]) for part in table.primary_key]
    if len(texts) == 1:
        only = texts[0]
        return lambda key: f"[{only(key[0])}]"
    template = f"[{', '.join(['%s'] * len(texts))}]"
    slots = tuple(_Slot(position, text) for position, text in enumerate(texts))
    return _compile_template(_Member("", template, slots))


def _column_text(table: TableDescriptor, column: Column) -> TextEncoder:
    try:
        return text_encoder(column.type)
    except UnsupportedTable as error:
        raise UnsupportedTable(f"table {table.name}, column {column.name}: {error}") from None


def _refuse_repeated_names(table: TableDescriptor, options: FeedOptions) -> None:
    """A column named like the metadata object would stand twice in one JSON object."""
    stamped = options.updated or options.mvcc_timestamp
    if options.envelope is not Envelope.ROW or not stamped:
        return
    if any(column.name == METADATA_MEMBER for column in table.columns if column.public):
        raise UnsupportedTable(
            f"table {table.name} has a column named {METADATA_MEMBER}, where the row envelope puts its "
            "timestamps: rename the column, use envelope=wrapped, or leave out updated and mvcc_timestamp"
        )

"""Two parsers read the row out of a record: our decoder, and one written in another language."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pydantic_core
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.changefeed.encoding.json.json_datums import same_datum
from tests.unit.changefeed.tables import shown_previous
from tests.unit.rows.strategies import rows, tables
from tidegate.changefeed.definition.options import Envelope, FeedOptions
from tidegate.changefeed.encoding.decoder import decoder_for
from tidegate.changefeed.encoding.encoder import compile_encoder
from tidegate.changefeed.encoding.envelopes.registry import shows_previous
from tidegate.changefeed.encoding.record import RowRecord
from tidegate.hlc import Timestamp
from tidegate.rows import Datum, Row, TableDescriptor
from tidegate.rows.types import SqlType

AT: Final = Timestamp(1_743_792_394_409_866_000, 2)
SCAN: Final = Timestamp(1_743_792_395_000_000_000, 1)
ASKED: Final = (
    FeedOptions(),
    FeedOptions(diff=True, updated=True, key_in_value=True, topic_in_value=True),
    FeedOptions(envelope=Envelope.ROW, updated=True),
    FeedOptions(envelope=Envelope.BARE, updated=True, key_in_value=True),
    FeedOptions(envelope=Envelope.ENRICHED, diff=True, updated=True),
    FeedOptions(envelope=Envelope.UPSERT),
    FeedOptions(envelope=Envelope.DEBEZIUM),
)


@st.composite
def changes(draw: st.DrawFn) -> Row:
    """A row of any table, its change, its deletion, or the row as a scan finds it."""
    table = draw(tables())
    new, old = draw(rows(table)), draw(rows(table))
    positions = {column.id: position for position, column in enumerate(table.columns)}
    at = [positions[part.column_id] for part in table.primary_key]
    old = tuple(new[i] if i in at else datum for i, datum in enumerate(old))
    key = tuple(new[i] for i in at)
    return draw(
        st.sampled_from(
            [
                Row(table, key, new, ()),
                Row(table, key, new, old),
                Row(table, key, None, old),
                Row(table, key, None, ()),
                Row(table, key, new, scanned_at=SCAN),
            ]
        )
    )


def same_row(table: TableDescriptor, found: Any, datums: tuple[Datum, ...] | None) -> bool:
    """Whether an object, or ``null``, stands for a row's datums; ``()`` and ``None`` for no row."""
    if not datums:
        return found is None
    return found.keys() == {column.name for column in table.columns} and all(
        same_datum(column.type, found[column.name], datum)
        for column, datum in zip(table.columns, datums, strict=True)
    )


def key_types(table: TableDescriptor) -> dict[str, SqlType]:
    types = {column.id: (column.name, column.type) for column in table.columns}
    return dict(types[part.column_id] for part in table.primary_key)


@given(st.sampled_from(ASKED), changes())
def test_our_decoder_reads_the_row(options: FeedOptions, change: Row) -> None:
    record = decoder_for(options).decode(*compile_encoder(change.table, options).encode(change, AT))
    assert isinstance(record, RowRecord)
    names = key_types(change.table)
    ordered = sorted(names) if has_object_key(options) else list(names)
    by_name = dict(zip(names, change.key, strict=True))
    assert all(
        same_datum(names[name], found, by_name[name]) for name, found in zip(ordered, record.key, strict=True)
    )
    if options.envelope is Envelope.BARE and change.values is None:
        assert record.row is not None
        assert record.row.keys() == {column.name for column in change.table.columns}
        assert record.deleted is not False
        return
    assert same_row(change.table, record.row, change.values)
    if shows_previous(options):
        assert same_row(change.table, record.previous, shown_previous(change, options))


@given(st.sampled_from(ASKED), changes())
def test_another_parser_reads_the_row(options: FeedOptions, change: Row) -> None:
    key, value = compile_encoder(change.table, options).encode(change, AT)
    assert _same_key(change, pydantic_core.from_json(key))
    if not value:
        assert change.values is None
        return
    parsed = pydantic_core.from_json(value)
    if options.envelope in (Envelope.ROW, Envelope.BARE, Envelope.UPSERT):
        parsed.pop("__crdb__", None)
        if change.values is not None:
            assert same_row(change.table, parsed, change.values)
        return
    assert same_row(change.table, parsed["after"], change.values)
    if shows_previous(options):
        assert same_row(change.table, parsed["before"], shown_previous(change, options))


def has_object_key(options: FeedOptions) -> bool:
    return options.envelope in (Envelope.ENRICHED, Envelope.UPSERT, Envelope.DEBEZIUM)


def _same_key(change: Row, found: Any) -> bool:
    types = key_types(change.table)
    values = found if isinstance(found, Mapping) else dict(zip(types, found, strict=True))
    return values.keys() == types.keys() and all(
        same_datum(types[name], values[name], datum) for name, datum in zip(types, change.key, strict=True)
    )

"""Schemas of one subject read each other's records, as a registry asks of them."""

from __future__ import annotations

import json
from dataclasses import replace
from io import BytesIO
from itertools import permutations
from typing import Any

import pytest
from fastavro import parse_schema, schemaless_reader

from tests.unit.changefeed.encoding.avro.tables_of_types import AVRO, sql_table
from tests.unit.changefeed.tables import row
from tidegate.changefeed.definition.feed import TableName
from tidegate.changefeed.definition.options import Envelope
from tidegate.changefeed.encoding.avro.marker import compile_avro_marker
from tidegate.changefeed.encoding.encoder import compile_encoder
from tidegate.hlc import ResolvedTimestamp, Timestamp
from tidegate.rows.types import Datum

AT = Timestamp(1, 2)
OLD = sql_table("t", ("a",), a="INT", b="STRING")
ADDED = sql_table("t", ("a",), a="INT", b="STRING", c="DECIMAL(5,2)")
DROPPED = sql_table("t", ("a",), a="INT")
COLUMNS: dict[str, Datum] = {"a": 1, "b": "x", "c": None}


def written(prefix: str) -> dict[str, tuple[str, bytes]]:
    """Schema and body of a row of each version of a table, and of a marker."""
    options = replace(AVRO, updated=True, avro_schema_prefix=prefix)
    found = {}
    for name, table in (("old", OLD), ("added", ADDED), ("dropped", DROPPED)):
        encoder = compile_encoder(table, options)
        assert encoder.schemas is not None
        _, value = encoder.encode(row(table, **{each.name: COLUMNS[each.name] for each in table.columns}), AT)
        assert value is not None
        found[name] = encoder.schemas.value.text, value
    marker = compile_avro_marker(TableName.of(OLD), options)
    assert marker.schema is not None
    found["marker"] = marker.schema.text, marker.encode(ResolvedTimestamp(AT))
    return found


def read_as(writer: str, body: bytes, reader: str) -> Any:
    return schemaless_reader(
        BytesIO(body), parse_schema(json.loads(writer)), parse_schema(json.loads(reader))
    )


def test_enriched_rows_and_markers_read_each_other() -> None:
    options = replace(AVRO, envelope=Envelope.ENRICHED, diff=True, enriched_properties="source")
    encoder, marker = compile_encoder(OLD, options), compile_avro_marker(TableName.of(OLD), options)
    assert encoder.schemas is not None
    assert marker.schema is not None
    _, value = encoder.encode(row(OLD, a=1, b="x"), AT)
    assert value is not None
    assert read_as(encoder.schemas.value.text, value, marker.schema.text) == {"resolved": None}
    resolved = marker.encode(ResolvedTimestamp(AT))
    assert set(read_as(marker.schema.text, resolved, encoder.schemas.value.text).values()) == {None}


@pytest.mark.parametrize("prefix", ["", "acme"])
@pytest.mark.parametrize(("writer", "reader"), [*permutations(["old", "added", "dropped", "marker"], 2)])
def test_each_reads_the_other(writer: str, reader: str, prefix: str) -> None:
    found = written(prefix)
    (text, body), (reader_text, _) = found[writer], found[reader]
    read = read_as(text, body, reader_text)
    if reader == "marker":
        assert read == {"resolved": None}
        return
    if writer == "marker":
        assert read == {"after": None, "updated": None}
        return
    columns = {"old": "ab", "added": "abc", "dropped": "a"}
    assert read["after"] == {
        name: COLUMNS[name] if name in columns[writer] else None for name in columns[reader]
    }

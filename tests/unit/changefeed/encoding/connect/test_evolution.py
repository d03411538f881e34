"""Versions of a table in Avro read each other, so that the registry takes each after the other."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import pytest

from tests.unit.changefeed.encoding.connect.forms import AT, FORMS
from tests.unit.changefeed.tables import row, table
from tidegate.changefeed.encoding.encoder import compile_encoder
from tidegate.rows.descriptor import TableDescriptor
from tidegate.rows.sql_type import parse_sql_type
from tidegate.rows.types import Datum

NARROW = {"id": "INT8", "city": "STRING"}
#: What a version of the table has that the narrow one has not.
ADDED = {
    "a string": {"b": "STRING"},
    "a decimal": {"d": "DECIMAL(10,2)"},
    "an array": {"a": "DATE[]"},
    "a number of 16 bits": {"i": "INT2"},
    "in front": {"": "JSONB"},
}
VALUES: dict[str, Datum] = {"id": 1, "city": "Zürich", "en": "open"}


def version(columns: dict[str, str]) -> TableDescriptor:
    typed = {name or "_": parse_sql_type(text) for name, text in columns.items()}
    return table("t", typed, key=("id",))


def parsed_schema(of: TableDescriptor, form: str) -> Any:
    schemas = compile_encoder(of, FORMS[form]).schemas
    assert schemas is not None
    return fastavro.parse_schema(json.loads(schemas.value.text))


def resolved(written_by: TableDescriptor, read_by: TableDescriptor, form: str) -> Any:
    """A row of one version, read as Avro resolves its schema to the other's."""
    writer = compile_encoder(written_by, FORMS[form])
    values = {column.name: VALUES.get(column.name) for column in written_by.columns}
    _, body = writer.encode(row(written_by, **values)._replace(previous=()), AT)
    assert body is not None
    value: Any = fastavro.schemaless_reader(
        io.BytesIO(body), parsed_schema(written_by, form), parsed_schema(read_by, form)
    )
    return value["after"] if form.endswith("debezium") else value


@pytest.mark.parametrize("form", ["avro-upsert", "avro-debezium"])
@pytest.mark.parametrize("added", ADDED.values(), ids=list(ADDED))
def test_an_added_nullable_column_is_compatible_both_ways(added: dict[str, str], form: str) -> None:
    ordered = {**added, **NARROW} if "" in added else {**NARROW, **added}
    narrow, wide = version(NARROW), version(ordered)
    row_of_both = {"id": 1, "city": "Zürich"}
    assert resolved(narrow, wide, form) == {**row_of_both, **dict.fromkeys([name or "_" for name in added])}
    assert resolved(wide, narrow, form) == row_of_both


@pytest.mark.parametrize("form", ["avro-upsert", "avro-debezium"])
def test_an_added_label_of_an_enum_is_compatible_both_ways(form: str) -> None:
    old = version({"id": "INT8", "en": "st('open')"})
    new = version({"id": "INT8", "en": "st('open', 'closed')"})
    expected = {"id": 1, "en": "open"}
    assert resolved(old, new, form) == resolved(new, old, form) == expected


def test_the_keys_schema_stays_the_same_when_a_column_is_added() -> None:
    def key_text(columns: dict[str, str]) -> str:
        schemas = compile_encoder(version(columns), FORMS["avro-upsert"]).schemas
        assert schemas is not None
        return schemas.key.text

    assert key_text(NARROW) == key_text({**NARROW, "b": "STRING"})

"""docs/avro.md: its schemas, its type table, its names, and its consumer."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka.schema_registry import Schema as ClientSchema
from confluent_kafka.schema_registry import SchemaRegistryClient

from tests.unit.changefeed.encoding.avro.tables_of_types import AVRO, one_column, sql_table
from tests.unit.changefeed.tables import deletion, row
from tidegate.changefeed.definition.feed import TableName
from tidegate.changefeed.encoding.avro.marker import compile_avro_marker
from tidegate.changefeed.encoding.confluent import SubjectSchema, frame_prefix
from tidegate.changefeed.encoding.encoder import compile_encoder
from tidegate.errors import UnsupportedTable
from tidegate.hlc import ResolvedTimestamp, Timestamp
from tidegate.rows.sql_type import parse_sql_type

PAGE: Final = (Path(__file__).parents[5] / "docs" / "avro.md").read_text()
PETS: Final = sql_table("pets", ("id",), id="INT", name="STRING")
OPTIONS: Final = replace(AVRO, updated=True)
AT: Final = Timestamp(1_743_792_394_409_866_000, 2)
_CLIENT: Final = 'SchemaRegistryClient({"url": "http://127.0.0.1:8081"})'


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def table_after(heading: str) -> Iterator[list[str]]:
    """The cells of the first table of a section."""
    section = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    for line in section.splitlines():
        if line.startswith("| ") and not line.startswith(("| SQL", "| option")):
            yield [cell.strip().replace("`", "") for cell in line.strip("|").split("|")]


def test_the_schemas_of_the_page_are_the_feeds() -> None:
    schemas = compile_encoder(PETS, OPTIONS).schemas
    marker = compile_avro_marker(TableName.of(PETS), OPTIONS).schema
    assert schemas is not None
    assert marker is not None
    written = [json.loads(block) for block in blocks("json")]
    assert [json.dumps(each) for each in written] == [
        json.dumps(json.loads(each.text)) for each in (*schemas, marker)
    ]
    assert [schemas.key.subject, schemas.value.subject, marker.subject] == re.findall(
        r"under the subject `(.+?)`", PAGE
    )


@pytest.mark.parametrize("cells", [*table_after("Types")], ids=lambda cells: cells[0])
def test_a_line_of_the_type_table(cells: list[str]) -> None:
    sql, shown, _ = cells
    table = one_column(parse_sql_type(sql))
    if shown == "refused":
        with pytest.raises(UnsupportedTable, match="not yet supported with avro"):
            compile_encoder(table, AVRO)
        return
    schemas = compile_encoder(table, AVRO).schemas
    assert schemas is not None
    assert f'{{"type":{shown},"name":"c"' in schemas.key.text


@pytest.mark.parametrize("cells", [*table_after("Names")], ids=lambda cells: cells[0])
def test_a_line_of_the_names_table(cells: list[str]) -> None:
    option, subjects, names, row_name, namespace = cells
    options: dict[str, Any] = {}
    if option != "none":
        name, _, value = option.partition("=")
        options[name] = value.strip("'") or True
    schemas = compile_encoder(replace(PETS, database="db"), replace(AVRO, **options)).schemas
    assert schemas is not None
    key, envelope = json.loads(schemas.key.text), json.loads(schemas.value.text)
    after = envelope["fields"][0]["type"][1]
    assert schemas.key.subject == subjects.partition(",")[0]
    assert schemas.value.subject == schemas.key.subject.replace("-key", "-value")
    assert (key["name"], envelope["name"]) == (names.partition(",")[0], f"{key['name']}_envelope")
    assert after["name"] == row_name
    assert {each.get("namespace", "none") for each in (key, envelope, after)} == {namespace.partition(",")[0]}


def test_the_pages_consumer_reads_rows_deletions_and_markers() -> None:
    registry = SchemaRegistryClient.new_client({"url": "mock://page"})
    (source,) = blocks("python")
    assert _CLIENT in source
    names: dict[str, Any] = {"REGISTRY": registry}
    exec(source.replace(_CLIENT, "REGISTRY"), names)  # the page is ours
    encoder, marker = compile_encoder(PETS, OPTIONS), compile_avro_marker(TableName.of(PETS), OPTIONS)
    assert encoder.schemas is not None
    assert marker.schema is not None

    def framed(schema: SubjectSchema, body: bytes | None) -> bytes:
        assert body is not None
        number = registry.register_schema(schema.subject, ClientSchema(schema.text, "AVRO"))
        return frame_prefix(number) + body

    read = []
    for version in (row(PETS, id=1, name="Rex"), deletion(PETS, 1)):
        key, value = encoder.encode(version, AT)
        read.append(names["change"](framed(encoder.schemas.key, key), framed(encoder.schemas.value, value)))
    read.append(names["change"](None, framed(marker.schema, marker.encode(ResolvedTimestamp(AT)))))
    assert read == [
        ({"id": 1}, {"id": 1, "name": "Rex"}),
        ({"id": 1}, None),
        ("resolved", "1743792394409866000.0000000002"),
    ]

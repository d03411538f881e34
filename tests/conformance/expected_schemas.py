"""The Avro values and schemas that changefeed cases expect.

Values are read out of the records that the run wrote. Schemas are those of the table's encoder, because a
case may expect them of a feed without rows; that the records were written with them shows in reading them.
"""

from __future__ import annotations

import json
from typing import Any, Final

from tests.conformance.avro_text import canonical
from tests.conformance.case import Case
from tests.conformance.feed_run import FeedRun
from tidegate.changefeed.definition.options import FeedOptions
from tidegate.changefeed.encoding.confluent import RecordSchemas
from tidegate.changefeed.encoding.encoder import compile_encoder
from tidegate.rows import TableDescriptor

#: Envelopes' members that hold the row.
_ROW_MEMBERS: Final = ("after", "record", "before")


def avro_json(case: Case, run: FeedRun) -> str | None:
    """The column ``b`` of the only row."""
    wanted = canonical(json.loads(case["expect"]["avro_json"]))
    lines = run.outputs[0].rows
    if len(lines) != 1:
        return f"expected one record, got {run.outputs[0].texts}"
    table = run.tables[0]
    row = _row_in(json.loads(lines[0].value))
    fields = _row_schema(table, run.options)["fields"]
    found = canonical(row[fields[_column_b(table)]["name"]])
    return None if found == wanted else f"expected {wanted}, got {found}"


def field_type(case: Case, run: FeedRun) -> str | None:
    """The type of column ``b`` in the row's schema."""
    table = run.tables[0]
    fields = _row_schema(table, run.options)["fields"]
    return _schema_difference(case["expect"]["field_type"], fields[_column_b(table)]["type"])


def value_row_schema(case: Case, run: FeedRun) -> str | None:
    """The text of the row's schema inside the envelope's."""
    found = _row_schema(run.tables[0], run.options)
    return _schema_difference(case["expect"]["value_row_schema"], found)


def key_schema(case: Case, run: FeedRun) -> str | None:
    """The text of the key's schema."""
    found = _schemas(run.tables[0], run.options).key
    return _schema_difference(case["expect"]["key_schema"], json.loads(found.text))


def value_schema(case: Case, run: FeedRun) -> str | None:
    """The text of the whole envelope's schema."""
    found = _schemas(run.tables[0], run.options).value
    return _schema_difference(case["expect"]["value_schema"], json.loads(found.text))


def namespace(case: Case, run: FeedRun) -> str | None:
    """The namespace of the schemas of keys and values, or of those of some subjects; ``None`` for none."""
    wanted = case["expect"]["namespace"]
    schemas = [schema for table in run.tables for schema in _schemas(table, run.options)]
    by_subject = wanted if isinstance(wanted, dict) else {schema.subject: wanted for schema in schemas}
    texts = {schema.subject: schema.text for schema in schemas}
    for subject, name in by_subject.items():
        if subject not in texts:
            return f"no schema has the subject {subject}, only {', '.join(sorted(texts))}"
        found = json.loads(texts[subject]).get("namespace")
        if found != name:
            return f"expected the namespace {name}, the schema of {subject} has {found}"
    return None


def _schema_difference(wanted: Any, found: Any) -> str | None:
    """Schemas are compared with their members in order: that is how the registry tells them apart."""
    expected = json.loads(wanted) if isinstance(wanted, str) else wanted
    texts = [json.dumps(schema, ensure_ascii=False, separators=(",", ":")) for schema in (expected, found)]
    return None if texts[0] == texts[1] else f"expected the schema {texts[0]}, got {texts[1]}"


def _row_in(value: dict[str, Any]) -> dict[str, Any]:
    """The row of an envelope: ``{"after": {"foo": {...}}}``."""
    member = next(name for name in _ROW_MEMBERS if value.get(name) is not None)
    (row,) = value[member].values()
    assert isinstance(row, dict)
    return row


def _row_schema(table: TableDescriptor, options: FeedOptions) -> dict[str, Any]:
    """The record schema of the row in the envelope's schema."""
    envelope = json.loads(_schemas(table, options).value.text)
    field = next(field for field in envelope["fields"] if field["name"] in _ROW_MEMBERS[:2])
    record = next(branch for branch in field["type"] if isinstance(branch, dict))
    assert isinstance(record, dict)
    return record


def _column_b(table: TableDescriptor) -> int:
    """The place of column ``b``, or of the last one where no column is called so."""
    names = [column.name for column in table.columns]
    return names.index("b") if "b" in names else len(names) - 1


def _schemas(table: TableDescriptor, options: FeedOptions) -> RecordSchemas:
    schemas = compile_encoder(table, options).schemas
    if schemas is None:
        raise ValueError("the feed has no schemas")
    return schemas

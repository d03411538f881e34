"""A reader follows no schema by which a few bytes are more than a process can hold."""

from __future__ import annotations

import json
from typing import Any

import pytest
from fastavro import parse_schema

from tests.unit.changefeed.encoding.avro.tables_of_types import AVRO
from tidegate.changefeed.encoding.avro.schema_bounds import MOST_LEVELS, schema_fault
from tidegate.changefeed.encoding.confluent import frame_prefix
from tidegate.changefeed.encoding.decoder import decoder_for
from tidegate.errors import MalformedRecord


def _record(*types: Any, name: str = "r") -> dict[str, Any]:
    return {
        "type": "record",
        "name": name,
        "fields": [{"name": f"f{number}", "type": each} for number, each in enumerate(types)],
    }


def _arrays(levels: int) -> Any:
    return "int" if not levels else {"type": "array", "items": _arrays(levels - 1)}


_EMPTY = {"type": "fixed", "name": "e", "size": 0}
_MORE_THAN_THERE_IS = {"type": "fixed", "name": "m", "size": -1}

WITHIN_ITSELF = (
    _record("r"),
    _record({"type": "array", "items": "r"}),
    _record({"type": "map", "values": "r"}),
    _record(["null", "r"]),
    _record(_record("r", name="s")),
    {"type": "array", "items": _record("r")},
)
OF_NO_BYTES = (
    _record("null"),
    _record({"type": "null"}),
    _record({"type": "array", "items": "null"}),
    _record({"type": "array", "items": _record(name="s")}),
    _record({"type": "array", "items": _EMPTY}),
    _record({"type": "array", "items": _MORE_THAN_THERE_IS}),
    _record(["null", _EMPTY], {"type": "array", "items": "e"}),
)
BOUNDED = (
    _record("long", ["null", "string"], ["null", _EMPTY], ["null", _record(name="s")]),
    _record(_record("int", name="s"), "s", {"type": "array", "items": "s"}),
    _record({"type": "map", "values": ["null", "bytes"]}, {"type": "enum", "name": "n", "symbols": ["a"]}),
    _record({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}),
)


def _read(schema: Any, body: bytes) -> None:
    decoder = decoder_for(AVRO, lambda _: json.dumps(schema))
    decoder.decode(None, frame_prefix(1) + body)


@pytest.mark.parametrize("schema", WITHIN_ITSELF, ids=json.dumps)
def test_a_type_that_stands_within_itself_is_malformed(schema: Any) -> None:
    """Zero bytes, or elements of elements, would lead deeper than the stack."""
    for body in (b"", b"\x02" * 1_000_000):
        with pytest.raises(MalformedRecord, match="stands within itself"):
            _read(schema, body)


@pytest.mark.parametrize("schema", OF_NO_BYTES, ids=json.dumps)
def test_a_type_of_no_bytes_is_malformed_outside_a_union(schema: Any) -> None:
    """Four bytes would say that there are 100 million."""
    with pytest.raises(MalformedRecord, match="take no bytes"):
        _read(schema, b"\x80\xc2\xd7\x5f\x00")


@pytest.mark.parametrize("schema", BOUNDED, ids=json.dumps)
def test_names_and_unions_are_followed(schema: Any) -> None:
    assert schema_fault(parse_schema(schema)) == ""


def test_types_stand_within_each_other_up_to_a_bound() -> None:
    assert schema_fault(parse_schema(_record(_arrays(MOST_LEVELS - 2)))) == ""
    assert "deeper than 100 levels" in schema_fault(parse_schema(_record(_arrays(MOST_LEVELS - 1))))


@pytest.mark.long
def test_levels_are_counted_through_names() -> None:
    """Each type is flat, and each has the one before within it: 30,000 of them are more than a stack."""
    branches = [_record("int", name="r0")]
    branches += [_record(f"r{number - 1}", name=f"r{number}") for number in range(1, 30_000)]
    with pytest.raises(MalformedRecord, match="deeper than 100 levels"):
        _read(branches, b"")


def test_a_schema_that_says_it_is_parsed_is_looked_at_all_the_same() -> None:
    """fastavro takes types of that name from the mark, whatever stands in the schema."""
    schema = _record(_record("int", name="s"), "s")
    schema |= {"__fastavro_parsed": True, "__named_schemas": {"s": _record("s", name="s")}}
    with pytest.raises(MalformedRecord, match="bytes that schema 1 does not fit"):
        _read(schema, b"\x02")


def test_a_name_that_is_no_text_is_shown_escaped() -> None:
    with pytest.raises(MalformedRecord) as refused:
        _read(_record("int", name="\ud800"), b"\x02")
    str(refused.value).encode()

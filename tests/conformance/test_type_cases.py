r"""Types that the public cases have no example of, as cases of the groups jsontype and avrotype.

The Avro ones are value_goldens and type_goldens of CockroachDB's ``pkg/ccl/changefeedccl/avro/avro_test.go``;
text search is from the tests of ``pkg/util/tsearch``. The others follow from the sources named in
``tidegate/changefeed``.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.conformance.runner import Outcome, Result, run_case

#: Type, SQL literal, schema, and the value in Avro's JSON encoding.
AVRO = [
    ("BOX2D", "'BOX(1 2,3 4)'", "string", r'{"string":"BOX(1 2,3 4)"}'),
    (
        "GEOGRAPHY",
        "'POINT(1.0 1.0)'",
        "bytes",
        r'{"bytes":"\u0001\u0001\u0000\u0000 \u00E6\u0010\u0000\u0000\u0000\u0000\u0000\u0000\u0000\u0000'
        r'\u00F0?\u0000\u0000\u0000\u0000\u0000\u0000\u00F0?"}',
    ),
    (
        "GEOMETRY",
        "'POINT(1.0 1.0)'",
        "bytes",
        r'{"bytes":"\u0001\u0001\u0000\u0000\u0000\u0000\u0000\u0000\u0000\u0000\u0000\u00F0?'
        r'\u0000\u0000\u0000\u0000\u0000\u0000\u00F0?"}',
    ),
    ("PG_LSN", "'A/0'", "string", r'{"string":"A\/0"}'),
    ("REFCURSOR", "'portal'", "string", r'{"string":"portal"}'),
    ("TSQUERY", "'foo<->bar&baz|qux'", "string", r"""{"string":"'foo' <-> 'bar' & 'baz' | 'qux'"}"""),
    ("TSVECTOR", "'foo:3a bar:100'", "string", r"""{"string":"'bar':100 'foo':3A"}"""),
    ("GEOMETRY", "NULL", "bytes", "null"),
    ("TSVECTOR", "NULL", "string", "null"),
]
#: Type, SQL literal, and the value in a record.
JSON = [
    ("BOX2D", "'BOX(1 2,3 4)'", '"BOX(1 2,3 4)"'),
    ("GEOGRAPHY", "'POINT(1.0 1.0)'", '{"coordinates": [1, 1], "type": "Point"}'),
    (
        "GEOGRAPHY(POINT)",
        "'SRID=4326;POINT(-73.98 40.75)'",
        '{"coordinates": [-73.98, 40.75], "type": "Point"}',
    ),
    (
        "GEOMETRY",
        "'LINESTRING(0 0, 100 1e-7)'",
        '{"coordinates": [[0, 0], [100, 1E-7]], "type": "LineString"}',
    ),
    ("GEOMETRY", "'POINT EMPTY'", '{"coordinates": [], "type": "Point"}'),
    ("GEOMETRY[]", "ARRAY['POINT(1 2)', NULL]", '[{"coordinates": [1, 2], "type": "Point"}, null]'),
    ("PG_LSN", "'16/B374D848'", '"16/B374D848"'),
    ("PG_LSN", "PG_LSN '1/2'", '"1/2"'),
    ("TSQUERY", "'fat & !''ra\"t'':*'", "\"'fat' & !'ra\\\"t':*\""),
    ("TSVECTOR", "'fat:2 rat:3A'::TSVECTOR", "\"'fat':2 'rat':3A\""),
    ("VECTOR(3)", "'[1,2.5,-3e7]'", '"[1,2.5,-3e+07]"'),
    ("VECTOR", "NULL", "null"),
    ("PGVECTOR(2)", "'[1,2.5]'", '"[1,2.5]"'),
    ("BIGSERIAL", "5", "5"),
    ("SERIAL4", "5", "5"),
    ("STRING ARRAY", "ARRAY['a', NULL]", '["a", null]'),
]


def _case(group: str, sql: str, literal: str, options: dict[str, Any], expect: dict[str, Any]) -> Result:
    columns = [{"name": "a", "type": "INT"}, {"name": "b", "type": sql}]
    return run_case(
        {
            "id": f"cf-{group}-{sql}",
            "table": {"name": "foo", "columns": columns, "pk": ["a"]},
            "options": options,
            "writes": [
                {"op": "insert_sql", "table": "foo", "values": f"(1, {literal})"},
                {"op": "start_feed"},
            ],
            "expect": expect,
        }
    )


@pytest.mark.parametrize(("sql", "literal", "schema", "value"), AVRO)
def test_a_type_in_avro(sql: str, literal: str, schema: str, value: str) -> None:
    expect = {"avro_json": value, "field_type": json.dumps(["null", schema], separators=(",", ":"))}
    result = _case("avrotype", sql, literal, {"format": "avro"}, expect)
    assert result.outcome is Outcome.PASSED, result.detail


@pytest.mark.parametrize(("sql", "literal", "value"), JSON)
def test_a_type_in_json(sql: str, literal: str, value: str) -> None:
    expect = {"records": [f'foo: [1]->{{"after": {{"a": 1, "b": {value}}}}}']}
    result = _case("jsontype", sql, literal, {}, expect)
    assert result.outcome is Outcome.PASSED, result.detail


@pytest.mark.parametrize("sql", ["VECTOR(3)", "VECTOR(3)[]"])
def test_a_type_that_is_refused_in_avro(sql: str) -> None:
    expect = {"state": "failed", "error_regex": r"type VECTOR\(3\) not yet supported with avro"}
    result = _case("avrotype", sql, "NULL", {"format": "avro"}, expect)
    assert result.outcome is Outcome.PASSED, result.detail

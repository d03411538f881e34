"""CockroachDB's own goldens, as the conformance vectors have them: Avro's JSON text of whole records.

The vectors are run end to end by ``tests.conformance``; here stand their records against the encoder alone.
"""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal
from ipaddress import IPv4Interface, IPv6Interface
from typing import Any
from uuid import UUID

import pytest

from tests.conformance.avro_text import avro_text, avro_value
from tests.unit.changefeed.encoding.avro.tables_of_types import AVRO, sql_table
from tests.unit.changefeed.tables import FOO, deletion_of, row
from tidegate.changefeed.definition.feed import TableName
from tidegate.changefeed.definition.options import Envelope
from tidegate.changefeed.encoding.avro.marker import compile_avro_marker
from tidegate.changefeed.encoding.encoder import compile_encoder
from tidegate.hlc import ResolvedTimestamp, Timestamp
from tidegate.rows.types import Interval, Json

AT = Timestamp(1, 2)
BAR = row(FOO, a=1, b="bar")


def texts(options: dict[str, Any], deleted: bool) -> str:
    encoder = compile_encoder(FOO, replace(AVRO, **options))
    assert encoder.schemas is not None
    key, value = encoder.encode(deletion_of(BAR) if deleted else BAR, AT)
    shown = avro_text(encoder.schemas.value.text, value) if value else ""
    return f"{avro_text(encoder.schemas.key.text, key)}->{shown}"


@pytest.mark.parametrize(
    ("options", "there", "gone"),
    [
        ({}, '{"after":{"foo":{"a":{"long":1},"b":{"string":"bar"}}}}', '{"after":null}'),
        (
            {"diff": True},
            '{"after":{"foo":{"a":{"long":1},"b":{"string":"bar"}}},"before":null}',
            '{"after":null,"before":{"foo_before":{"a":{"long":1},"b":{"string":"bar"}}}}',
        ),
        (
            {"updated": True},
            '{"after":{"foo":{"a":{"long":1},"b":{"string":"bar"}}},"updated":{"string":"1.0000000002"}}',
            '{"after":null,"updated":{"string":"1.0000000002"}}',
        ),
        (
            {"avro_schema_prefix": "super"},
            '{"after":{"super.foo":{"a":{"long":1},"b":{"string":"bar"}}}}',
            '{"after":null}',
        ),
        ({"envelope": Envelope.KEY_ONLY}, "", ""),
        (
            {"envelope": Envelope.ENRICHED},
            '{"after":{"foo":{"a":{"long":1},"b":{"string":"bar"}}},"op":{"string":"c"},"ts_ns":{"long":1}}',
            '{"after":null,"op":{"string":"d"},"ts_ns":{"long":1}}',
        ),
        (
            {"envelope": Envelope.ENRICHED, "diff": True, "updated": True, "avro_schema_prefix": "super"},
            '{"after":{"super.foo":{"a":{"long":1},"b":{"string":"bar"}}},"before":null,"op":{"string":"c"},'
            '"source":{"super.source":{"mvcc_timestamp":null,"ts_hlc":{"string":"1.0000000002"},'
            '"ts_ns":{"long":1}}},"ts_ns":{"long":1}}',
            '{"after":null,"before":{"super.foo_before":{"a":{"long":1},"b":{"string":"bar"}}},'
            '"op":{"string":"d"},"source":{"super.source":{"mvcc_timestamp":null,'
            '"ts_hlc":{"string":"1.0000000002"},"ts_ns":{"long":1}}},"ts_ns":{"long":1}}',
        ),
        (
            {"envelope": Envelope.ENRICHED, "enriched_properties": "source", "mvcc_timestamp": True},
            '{"after":{"foo":{"a":{"long":1},"b":{"string":"bar"}}},"op":{"string":"c"},"source":{"source":{'
            '"changefeed_sink":{"string":"kafka"},"crdb_internal_table_id":{"int":104},'
            '"database_name":{"string":"defaultdb"},"mvcc_timestamp":{"string":"1.0000000002"},'
            '"origin":{"string":"cockroachdb"},"primary_keys":{"array":["a"]},'
            '"schema_name":{"string":"public"},"table_name":{"string":"foo"},"ts_hlc":null,"ts_ns":null}},'
            '"ts_ns":{"long":1}}',
            '{"after":null,"op":{"string":"d"},"source":{"source":{'
            '"changefeed_sink":{"string":"kafka"},"crdb_internal_table_id":{"int":104},'
            '"database_name":{"string":"defaultdb"},"mvcc_timestamp":{"string":"1.0000000002"},'
            '"origin":{"string":"cockroachdb"},"primary_keys":{"array":["a"]},'
            '"schema_name":{"string":"public"},"table_name":{"string":"foo"},"ts_hlc":null,"ts_ns":null}},'
            '"ts_ns":{"long":1}}',
        ),
        (
            {"envelope": Envelope.BARE},
            '{"record":{"foo":{"a":{"long":1},"b":{"string":"bar"}}}}',
            '{"record":{"foo":{"a":{"long":1},"b":null}}}',
        ),
    ],
)
def test_records_read_as_the_source_prints_them(options: dict[str, Any], there: str, gone: str) -> None:
    key = '{"a":{"long":1}}->'
    assert [texts(options, deleted=False), texts(options, deleted=True)] == [key + there, key + gone]


def test_a_marker_reads_as_the_source_prints_it() -> None:
    marker = compile_avro_marker(TableName.of(FOO), AVRO)
    assert marker.schema is not None
    body = marker.encode(ResolvedTimestamp(AT))
    assert avro_text(marker.schema.text, body) == '{"resolved":{"string":"1.0000000002"}}'


@pytest.mark.parametrize(
    ("sql", "datum", "text"),
    [
        ("BOOL", True, '{"boolean":true}'),
        ("FLOAT", 1.2, '{"double":1.2}'),
        ("BYTES", b"\xff", r'{"bytes":"\u00FF"}'),
        ("DATE", 17_898, '{"int.date":17898}'),
        ("TIME", 11_045_000_000, '{"long.time-micros":11045000000}'),
        ("TIMESTAMP", 1_546_398_245 * 10**9, '{"long.timestamp-micros":1546398245000000}'),
        ("TIMESTAMPTZ", 1_546_398_245 * 10**9, '{"long.timestamp-micros":1546398245000000}'),
        ("INTERVAL", Interval(12, 0, -6_000_000), '{"string":"P1YT-0.006S"}'),
        ("DECIMAL(4,1)", Decimal("1.2"), r'{"bytes.decimal":"\f"}'),
        ("DECIMAL(4,1)", Decimal("-Infinity"), '{"string":"-Infinity"}'),
        ("DECIMAL(4,2)", Decimal("1.2"), '{"bytes.decimal":"x"}'),
        ("DECIMAL(12,2)", Decimal("1E+2"), r'{"bytes.decimal":"' + r"'\u0010" + '"}'),
        ("DECIMAL(4,2)", Decimal("0.12"), r'{"bytes.decimal":"\f"}'),
        (
            "UUID",
            UUID("27f4f4c9-e35a-45dd-9b79-5ff0f9b5fbb0"),
            '{"string":"27f4f4c9-e35a-45dd-9b79-5ff0f9b5fbb0"}',
        ),
        ("INET", IPv4Interface("190.0.0.0/24"), '{"string":"190.0.0.0/24"}'),
        ("INET", IPv6Interface("2001:4f8:3:ba:2e0:81ff:fe22:d1f1/120"), None),
        ("INET", IPv6Interface("::ffff:192.168.0.1/24"), '{"string":"::ffff:192.168.0.1/24"}'),
        ("JSONB", Json({"b": Decimal(1)}), r'{"string":"{\"b\": 1}"}'),
        ("VARBIT", "010", '{"array":[3,4611686018427387904]}'),
        (
            "BOOL[]",
            (True, True, False, None),
            '{"array":[{"boolean":true},{"boolean":true},{"boolean":false},null]}',
        ),
        ("STRING COLLATE fr", "Bonjour", '{"string":"Bonjour"}'),
        ("STRING", None, "null"),
    ],
)
def test_values_read_as_the_source_prints_them(sql: str, datum: Any, text: str | None) -> None:
    table = sql_table("foo", ("pk",), pk="INT", a=sql)
    encoder = compile_encoder(table, AVRO)
    assert encoder.schemas is not None
    _, value = encoder.encode(row(table, pk=1, a=datum), AT)
    assert value is not None
    expected = {"string": str(datum)} if text is None else json.loads(text)
    assert avro_value(encoder.schemas.value.text, value)["after"]["foo"]["a"] == expected

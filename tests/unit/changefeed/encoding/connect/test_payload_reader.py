"""JSON payloads by the schema beside them: what does not fit it is no record of the feed."""

from __future__ import annotations

from decimal import Decimal

import pytest

from tests.unit.changefeed.encoding.connect.forms import AT, FORMS
from tests.unit.changefeed.tables import row, table
from tidegate.changefeed.encoding.decoder import decoder_for
from tidegate.changefeed.encoding.encoder import compile_encoder
from tidegate.errors import MalformedRecord
from tidegate.rows.sql_type import parse_sql_type

TYPES = {"id": "INT8", "by": "BYTES", "fl": "FLOAT8", "ar": "INT8[]"}
WIDE = table("wide", {name: parse_sql_type(text) for name, text in TYPES.items()}, key=("id",))


@pytest.mark.parametrize(
    ("written", "instead"),
    [
        (b'"by": "Zm9v"', b'"by": "Zm9!"'),
        (b'"by": "Zm9v"', b'"by": 3'),
        (b'"by": "Zm9v", ', b""),
        (b'"fl": 1.5', b'"fl": "NaN"'),
        (b'"ar": [1]', b'"ar": 1'),
        (b'"ar": [1]', b'"ar": ["1"]'),
        (b'"ar": [1]', b'"ar": {"1": 1}'),
        (b'"id": 1}', b'"id": "x"}'),
        (b'"id": 1}', b'"id": true}'),
        (b'"id": 1}', b'"id": 9223372036854775808}'),
        (b'"id": 1}', b'"id": 1, "zz": 1}'),
        (b'"id": 1}', b'"id": 1, "id": 1}'),
        (b'"fl": 1.5', b'"fl": true'),
        (b'"type": "int64"', b'"type": "int128"'),
        (b'{"payload": ', b'{"more": 1, "payload": '),
        (b'"payload": {', b'"other": {'),
        (b'"schema": {', b'"skema": {'),
    ],
)
def test_a_payload_that_does_not_fit_its_schema_is_malformed(written: bytes, instead: bytes) -> None:
    options = FORMS["json-upsert"]
    key, value = compile_encoder(WIDE, options).encode(row(WIDE, id=1, by=b"foo", fl=1.5, ar=(1,)), AT)
    assert value is not None
    assert written in value
    with pytest.raises(MalformedRecord, match="not a JSON record of the upsert envelope"):
        decoder_for(options).decode(key, value.replace(written, instead))


@pytest.mark.parametrize(
    "scale", [b"1e999999999", b"1e9", b'"1e9"', b'"99999999999"', b'"x"', b'""', b"3", b"null"]
)
@pytest.mark.timeout(20)
def test_a_scale_that_nobody_writes_is_malformed_at_once(scale: bytes) -> None:
    prices = table(
        "prices", {"id": parse_sql_type("INT8"), "price": parse_sql_type("DECIMAL(10,3)")}, key=("id",)
    )
    options = FORMS["json-upsert"]
    key, value = compile_encoder(prices, options).encode(row(prices, id=1, price=Decimal("1.500")), AT)
    assert value is not None
    assert b'"scale": "3"' in value
    with pytest.raises(MalformedRecord, match="scale"):
        decoder_for(options).decode(key, value.replace(b'"scale": "3"', b'"scale": ' + scale))


def test_a_key_without_the_primary_keys_value_is_malformed() -> None:
    options = FORMS["json-upsert"]
    key, value = compile_encoder(WIDE, options).encode(row(WIDE, id=1, by=None, fl=None, ar=None), AT)
    with pytest.raises(MalformedRecord, match="null in place of id"):
        decoder_for(options).decode(key.replace(b'"id": 1', b'"id": null'), value)

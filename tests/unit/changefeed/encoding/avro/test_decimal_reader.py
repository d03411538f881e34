"""Decimals up to the bound are read as fastavro reads them, wherever they stand; longer ones are refused."""

from __future__ import annotations

import json
from decimal import Decimal
from io import BytesIO
from typing import Any, Final

import pytest
from fastavro import parse_schema, schemaless_reader, schemaless_writer
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.changefeed.encoding.avro.tables_of_types import AVRO, sql_table
from tests.unit.changefeed.tables import row
from tidegate.changefeed.encoding.avro.decimal_reader import BYTES_MAX
from tidegate.changefeed.encoding.avro.decode import AvroReader
from tidegate.changefeed.encoding.confluent import frame_prefix
from tidegate.changefeed.encoding.encoder import compile_encoder
from tidegate.changefeed.text.unscaled import DIGITS_MAX
from tidegate.hlc import Timestamp

_LONGEST: Final = 10**DIGITS_MAX - 1


def _record(kind: Any) -> dict[str, Any]:
    return {"type": "record", "name": "r", "fields": [{"name": "d", "type": kind}]}


def _decimal(precision: int, scale: int | None) -> dict[str, Any]:
    described = {"type": "bytes", "logicalType": "decimal", "precision": precision}
    return described if scale is None else described | {"scale": scale}


def _unscaled(schema: Any, datum: Any) -> bytes:
    """The record that has these bytes for its decimals."""
    buffer = BytesIO()
    plain = json.loads(json.dumps(schema).replace('"logicalType"', '"nothing"'))
    schemaless_writer(buffer, parse_schema(plain), {"d": datum})
    return buffer.getvalue()


def _read(schema: Any, body: bytes) -> Any:
    return AvroReader(lambda _: json.dumps(schema)).read(frame_prefix(1) + body)["d"]


def _read_by_fastavro(schema: Any, body: bytes) -> Any:
    record: Any = schemaless_reader(BytesIO(body), parse_schema(schema), None)
    return record["d"]


def _outcome(read: Any) -> Any:
    """Return what comes, as text: a Decimal equals others of other digits."""
    try:
        return repr(read())
    except (ValueError, ArithmeticError):
        return "unreadable"


def _same(schema: Any, datum: Any) -> None:
    body = _unscaled(schema, datum)
    theirs = _outcome(lambda: _read_by_fastavro(schema, body))
    assert _outcome(lambda: _read(schema, body)) == theirs


_PRECISIONS: Final = st.one_of(st.integers(1, 50), st.integers(1, 2 * DIGITS_MAX), st.just(10**9))
_BYTES: Final = st.one_of(
    st.binary(max_size=20),
    st.builds(lambda head, n: head + b"\x7f" * n, st.binary(max_size=9), st.integers(0, BYTES_MAX - 9)),
    st.integers(-_LONGEST, _LONGEST).map(lambda n: n.to_bytes(BYTES_MAX, "big", signed=True)),
)


@given(_PRECISIONS, st.data())
def test_a_decimal_of_bytes_is_read_as_fastavro_reads_it(precision: int, data: st.DataObject) -> None:
    scale = data.draw(st.none() | st.integers(0, precision))
    _same(_record(_decimal(precision, scale)), data.draw(_BYTES))


@given(_BYTES.filter(len), st.data())
def test_a_fixed_decimal_is_read_as_fastavro_reads_it(unscaled: bytes, data: st.DataObject) -> None:
    precision = data.draw(st.integers(1, max(1, int(len(unscaled) * 2.4))))
    fixed = _decimal(precision, data.draw(st.integers(0, precision)))
    fixed |= {"type": "fixed", "name": "f", "size": len(unscaled)}
    if precision <= 2 * len(unscaled):  # else fastavro refuses the schema
        _same(_record(fixed), unscaled)


@given(st.lists(st.none() | _BYTES, max_size=4))
def test_decimals_of_arrays_and_unions_are_read_as_fastavro_reads_them(unscaled: list[bytes | None]) -> None:
    _same(_record({"type": "array", "items": ["null", _decimal(40, 3)]}), unscaled)


@pytest.mark.parametrize("number", [_LONGEST, -_LONGEST, 0, -1], ids=["longest", "lowest", "0", "-1"])
def test_the_longest_number_that_is_written_is_read(number: int) -> None:
    table = sql_table("t", ("id",), id="INT8", d=f"DECIMAL({DIGITS_MAX},7)")
    encoder = compile_encoder(table, AVRO)
    value = Decimal(f"{number}E-7")
    _, body = encoder.encode(row(table, id=1, d=value), Timestamp(1))
    assert body is not None
    schemas = encoder.schemas
    assert schemas is not None
    read = AvroReader(lambda _: schemas.value.text).read(frame_prefix(1) + body)
    assert repr(read["after"]["d"]) == repr(value)


@pytest.mark.parametrize(
    "kind", [_decimal(38, 2), _decimal(38, 2) | {"type": "fixed", "name": "f", "size": BYTES_MAX + 1}]
)
def test_a_longer_decimal_is_refused_with_its_length(kind: dict[str, Any]) -> None:
    schema = _record(kind)
    body = _unscaled(schema, b"\x7f" * (BYTES_MAX + 1))
    with pytest.raises(ValueError, match=f"a decimal has {BYTES_MAX + 1} bytes; at most {BYTES_MAX}"):
        _read(schema, body)


@pytest.mark.parametrize("change", [{"scale": 39}, {"scale": -1}, {"precision": "38"}])
def test_precision_and_scale_are_still_checked(change: dict[str, Any]) -> None:
    with pytest.raises(Exception, match="schema 1 is not an Avro schema"):
        _read(_record(_decimal(38, 2) | change), b"\x00")

"""Value forms of datums: they come back exactly, can be passed over unread, and damage is refused."""

from __future__ import annotations

import math
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.rows.sameness import exact
from tests.unit.rows.strategies import SEASONS, VALUE_TYPES, datums
from tidegate.errors import EncodingError
from tidegate.rows import Kind, SqlType
from tidegate.rows.valueside.bare import bare_codec
from tidegate.rows.valueside.datums import value_codec
from tidegate.rows.valueside.tags import WireType, encode_tag, skip_datum
from tidegate.rows.valueside.varints import encode_length

typed_datums = st.sampled_from(VALUE_TYPES).flatmap(lambda t: st.tuples(st.just(t), datums(t)))


@given(typed=typed_datums)
def test_a_datum_comes_back_exactly_from_a_value(typed: tuple[SqlType, Any]) -> None:
    sql_type, datum = typed
    codec = value_codec(sql_type)
    wire_type, data = codec.encode(datum)
    decoded, end = codec.decoders[wire_type](data + b"\x13", 0)
    assert end == len(data)
    assert exact(decoded) == exact(datum)


def test_not_a_number_has_the_bits_that_go_writes() -> None:
    assert value_codec(SqlType(Kind.FLOAT)).encode(-math.nan)[1].hex() == "7ff8000000000001"


@given(typed=typed_datums)
def test_a_datum_comes_back_exactly_from_a_bare_value(typed: tuple[SqlType, Any]) -> None:
    sql_type, datum = typed
    codec = bare_codec(sql_type)
    assert exact(codec.decode(codec.encode(datum))) == exact(datum)


@given(typed=typed_datums)
def test_a_datum_is_passed_over_without_knowing_its_column(typed: tuple[SqlType, Any]) -> None:
    wire_type, data = value_codec(typed[0]).encode(typed[1])
    assert skip_datum(b"\x13" + data + b"\x13", 1, wire_type) == 1 + len(data)


@given(typed=typed_datums)
def test_every_cut_of_a_value_is_refused(typed: tuple[SqlType, Any]) -> None:
    codec = value_codec(typed[0])
    wire_type, data = codec.encode(typed[1])
    for size in range(len(data)):
        with pytest.raises(EncodingError):
            codec.decoders[wire_type](data[:size], 0)
        with pytest.raises(EncodingError):
            skip_datum(data[:size], 0, wire_type)


@given(sql_type=st.sampled_from(VALUE_TYPES), noise=st.binary(max_size=60))
def test_noise_is_decoded_or_refused_but_never_a_crash(sql_type: SqlType, noise: bytes) -> None:
    for decode in value_codec(sql_type).decoders.values():
        try:
            _, end = decode(noise, 0)
        except EncodingError:
            continue
        assert 0 <= end <= len(noise)


@given(sql_type=st.sampled_from(VALUE_TYPES), noise=st.binary(max_size=60))
def test_a_noisy_bare_value_is_decoded_or_refused(sql_type: SqlType, noise: bytes) -> None:
    with suppress(EncodingError):  # any other error fails the test
        bare_codec(sql_type).decode(noise)


def test_a_tuple_is_passed_over_with_all_that_it_holds() -> None:
    inner = encode_tag(0, WireType.INT) + b"\x02" + encode_tag(0, WireType.JSON) + b"\x01\x00"
    nested = encode_length(2) + inner
    assert skip_datum(nested + b"\xff", 0, WireType.TUPLE) == len(nested)


@pytest.mark.parametrize("wire_type", [0, 7, 20, 22, 28, 46, 1000])
def test_an_unknown_wire_type_is_refused(wire_type: int) -> None:
    with pytest.raises(EncodingError, match=f"unknown wire type {wire_type}"):
        skip_datum(b"\x00" * 64, 0, wire_type)


@pytest.mark.parametrize(
    ("element", "payload"),
    [
        (SqlType(Kind.INT), "020300"),  # two dimensions
        (SqlType(Kind.INT), "210300"),  # an unknown header bit
        (SqlType(Kind.INT), "010600"),  # of strings
        (SqlType(Kind.INT), "01030302"),  # three are announced, one is there
        (SqlType(Kind.INT), "0103010202"),  # one is announced, two are there
        (SqlType(Kind.INT), "1103ff"),  # a bitmap that is not there
        (SqlType(Kind.BOOL), "010a010c"),  # neither true nor false
    ],
)
def test_a_malformed_array_is_refused(element: SqlType, payload: str) -> None:
    data = bytes.fromhex(payload)
    codec = value_codec(SqlType(Kind.ARRAY, element=element))
    with pytest.raises(EncodingError):
        codec.decoders[WireType.ARRAY](encode_length(len(data)) + data, 0)


def test_an_announced_length_costs_nothing_before_it_is_believed() -> None:
    huge = encode_length(2**60)
    for kind, wire_type in ((Kind.STRING, WireType.BYTES), (Kind.BIT, WireType.BIT_ARRAY)):
        with pytest.raises(EncodingError):
            value_codec(SqlType(kind)).decoders[wire_type](huge + b"\x00" * 20, 0)


def test_enum_values_are_labels_in_rows_and_bytes_in_values() -> None:
    codec = value_codec(SEASONS)
    assert codec.encode("summer") == (WireType.BYTES, b"\x01\x80")
    assert codec.decoders[WireType.BYTES](b"\x01\xc0", 0) == ("autumn", 2)
    with pytest.raises(EncodingError, match="0x41"):
        codec.decoders[WireType.BYTES](b"\x01\x41", 0)

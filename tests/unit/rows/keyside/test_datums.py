"""Key forms of datums: they come back, they sort as the datums do, and damage is refused."""

from __future__ import annotations

import math
import struct
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.rows.strategies import KEY_TYPES, SEASONS, datums
from tidegate.errors import EncodingError
from tidegate.rows import Interval, Kind, SqlType, TimeTz
from tidegate.rows.inet import encode_inet
from tidegate.rows.keyside.datums import key_codec, nullable

_LABELS = [member.label for member in SEASONS.members]
typed_datums = st.sampled_from(KEY_TYPES).flatmap(lambda t: st.tuples(st.just(t), datums(t)))
typed_pairs = st.sampled_from(KEY_TYPES).flatmap(lambda t: st.tuples(st.just(t), datums(t), datums(t)))
directions = pytest.mark.parametrize("descending", [False, True], ids=["asc", "desc"])


def rank(sql_type: SqlType, datum: Any) -> Any:
    """Return what datums of a type sort by in SQL, as a Python value."""
    if datum is None:
        return (0,)
    if sql_type.kind is Kind.ARRAY:
        assert sql_type.element is not None
        return (1, *(rank(sql_type.element, element) for element in datum))
    return 1, _scalar_rank(sql_type.kind, datum)


def _scalar_rank(kind: Kind, datum: Any) -> Any:
    match datum:
        case float() | Decimal() if math.isnan(datum):
            return (0, 0)
        case float() | Decimal():
            return (1, datum)
        case Interval():
            total = (datum.months * 30 + datum.days) * 24 * 3600 * 10**9 + datum.nanos
            return total, datum.months, datum.days
        case TimeTz():
            return datum.micros + datum.offset_seconds * 10**6, datum.offset_seconds
        case str() if kind is Kind.ENUM:
            return _LABELS.index(datum)
        case str():
            return datum.encode()
    return encode_inet(datum) if kind is Kind.INET else datum


@directions
@given(typed=typed_datums)
def test_a_datum_comes_back_from_its_key(descending: bool, typed: tuple[SqlType, Any]) -> None:
    sql_type, datum = typed
    codec = key_codec(sql_type, descending)
    encoded = codec.encode(datum)
    decoded, end = codec.decode(encoded + b"\x88", 0)
    assert end == len(encoded)
    assert rank(sql_type, decoded) == rank(sql_type, datum)


@directions
@given(typed=typed_pairs)
def test_keys_sort_as_their_datums_do(descending: bool, typed: tuple[SqlType, Any, Any]) -> None:
    sql_type, one, other = typed
    codec = nullable(key_codec(sql_type, descending), descending)
    lower, higher = sorted((one, other), key=lambda datum: rank(sql_type, datum), reverse=descending)
    assert codec.encode(lower) <= codec.encode(higher)
    if rank(sql_type, one) == rank(sql_type, other):
        assert codec.encode(one) == codec.encode(other)


@directions
@given(typed=typed_datums)
def test_null_sorts_before_all_ascending_and_behind_all_descending(
    descending: bool, typed: tuple[SqlType, Any]
) -> None:
    sql_type, datum = typed
    codec = nullable(key_codec(sql_type, descending), descending)
    assert (codec.encode(None) > codec.encode(datum)) == descending
    assert codec.decode(codec.encode(None), 0) == (None, 1)


@directions
@given(typed=typed_datums)
def test_every_cut_of_a_key_is_refused(descending: bool, typed: tuple[SqlType, Any]) -> None:
    sql_type, datum = typed
    codec = key_codec(sql_type, descending)
    encoded = codec.encode(datum)
    for size in range(len(encoded)):
        with pytest.raises(EncodingError):
            codec.decode(encoded[:size], 0)


@directions
@given(sql_type=st.sampled_from(KEY_TYPES), noise=st.binary(max_size=40))
def test_noise_is_decoded_or_refused_but_never_a_crash(
    descending: bool, sql_type: SqlType, noise: bytes
) -> None:
    codec = key_codec(sql_type, descending)
    try:
        _, end = codec.decode(noise, 0)
    except EncodingError:
        return
    assert 0 < end <= len(noise)


@directions
def test_numbers_that_are_equal_share_a_key(descending: bool) -> None:
    decimal, float_ = (key_codec(SqlType(kind), descending) for kind in (Kind.DECIMAL, Kind.FLOAT))
    assert len({decimal.encode(Decimal(text)) for text in ("10", "10.0", "1E+1")}) == 1
    assert float_.encode(0.0) == float_.encode(-0.0)


@pytest.mark.parametrize("bits", [0x7FF8000000000001, 0xFFF8000000000000])
def test_every_nan_has_the_one_key(bits: int) -> None:
    (nan,) = struct.unpack(">d", struct.pack(">Q", bits))
    assert key_codec(SqlType(Kind.FLOAT), descending=False).encode(nan) == b"\x02"
    assert key_codec(SqlType(Kind.FLOAT), descending=True).encode(nan) == b"\x06"


@pytest.mark.parametrize(
    ("kind", "datum"),
    [
        (Kind.INT, 2**63),
        (Kind.INT, -(2**63) - 1),
        (Kind.INTERVAL, Interval(months=10**6, days=0, nanos=0)),
        (Kind.BIT, "012"),
        (Kind.DECIMAL, Decimal("1E+2000000001")),
        (Kind.COLLATED_STRING, "any"),
    ],
)
def test_a_datum_beyond_the_encoding_is_refused(kind: Kind, datum: Any) -> None:
    with pytest.raises(EncodingError):
        key_codec(SqlType(kind), descending=False).encode(datum)


@pytest.mark.parametrize(
    ("kind", "hex_key"),
    [
        (Kind.BOOL, "8a"),  # 2
        (Kind.INT, "fd8000000000000000"),  # 2**63
        (Kind.INT, "807fffffffffffffff"),  # -2**63 - 1
        (Kind.DECIMAL, "2a0300"),  # the last digit is odd
        (Kind.DECIMAL, "2a020200"),  # one before the last is even
        (Kind.DECIMAL, "2a00"),  # no digit
        (Kind.DECIMAL, "24ff00"),  # the last digit is zero
        (Kind.DECIMAL, "34fdffffffffffffffff0200"),  # an exponent of 2**64
        (Kind.STRING, "12ff0001"),  # no UTF-8
        (Kind.UUID, "12010001"),
        (Kind.INET, "120200ff0001"),  # family 2
        (Kind.TIMESTAMP, "1488fa3b9aca00"),  # a second of nanoseconds
        (Kind.BIT, "3a8800c9"),  # 65 bits in a word
        (Kind.BIT, "3a880088"),  # a word of no bits
        (Kind.BIT, "3a0089"),  # a bit of no word
        (Kind.BIT, "3a890089"),  # a bit set after the last
        (Kind.INTERVAL, "15888888"),  # more than 292 years
    ],
)
def test_a_malformed_key_is_refused(kind: Kind, hex_key: str) -> None:
    with pytest.raises(EncodingError):
        key_codec(SqlType(kind), descending=False).decode(bytes.fromhex(hex_key), 0)


def test_an_unknown_enum_value_is_refused_by_name() -> None:
    codec = key_codec(SEASONS, descending=False)
    with pytest.raises(EncodingError, match="'winter' is no label of the enum season"):
        codec.encode("winter")
    with pytest.raises(EncodingError, match="0x41 stands for no label of the enum season"):
        codec.decode(b"\x12\x41\x00\x01", 0)

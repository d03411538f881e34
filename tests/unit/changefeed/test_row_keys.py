"""A row and its deletion have one key in the envelopes whose sinks find the row by it."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.changefeed.tables import deletion, row, table
from tests.unit.rows.strategies import tables_with_rows
from tidegate.changefeed.encoder import compile_encoder
from tidegate.changefeed.options import CONNECT_ENVELOPES, Envelope, FeedOptions
from tidegate.hlc import Timestamp
from tidegate.rows import TableCodec, TableDescriptor
from tidegate.rows.types import Kind, SqlType

AT = Timestamp(1, 2)
DECIMAL = SqlType(Kind.DECIMAL)
FLOAT = SqlType(Kind.FLOAT)
DECIMALS = SqlType(Kind.ARRAY, element=DECIMAL)
PRICES = table("prices", {"d": DECIMAL}, key=("d",))
OURS = sorted(CONNECT_ENVELOPES, key=lambda envelope: envelope.value)


NUMBERS = table("numbers", {"d": DECIMAL, "f": FLOAT, "a": DECIMALS}, key=("d", "f", "a"))
#: Numbers that the store does not tell from shorter ones.
padded = st.builds(
    lambda digits, places: Decimal(digits * 100).scaleb(-places), st.integers(-99, 99), st.integers(-2, 9)
)
numbers = st.tuples(padded, st.sampled_from([0.0, -0.0, -1.5]), st.lists(st.none() | padded).map(tuple))


@given(tables_with_rows() | numbers.map(lambda values: (NUMBERS, values)), st.sampled_from(OURS))
def test_a_row_and_its_deletion_as_the_log_has_them_have_one_key(
    case: tuple[TableDescriptor, tuple[Any, ...]], envelope: Envelope
) -> None:
    descriptor, values = case
    codec = TableCodec(descriptor)
    key, value = codec.encode(values)
    whole, gone = codec.decode(key, value), codec.decode(key, b"")
    assert whole is not None
    assert gone is not None
    encode = compile_encoder(descriptor, FeedOptions(envelope=envelope)).encode
    assert encode(whole._replace(previous=()), AT)[0] == encode(gone._replace(previous=()), AT)[0]


@pytest.mark.parametrize(
    ("number", "text"),
    [("1.50", "1.5"), ("100", "1E+2"), ("0.00", "0"), ("-0", "0"), ("NaN", '"NaN"'), ("12.345", "12.345")],
)
def test_a_decimal_of_a_key_has_no_zeros_to_spare(number: str, text: str) -> None:
    for envelope in OURS:
        encode = compile_encoder(PRICES, FeedOptions(envelope=envelope)).encode
        key, _ = encode(row(PRICES, d=Decimal(number)), AT)
        assert key == b'{"d": %s}' % text.encode()


def test_the_row_itself_keeps_them() -> None:
    encode = compile_encoder(PRICES, FeedOptions(envelope=Envelope.UPSERT)).encode
    assert encode(row(PRICES, d=Decimal("1.50")), AT) == (b'{"d": 1.5}', b'{"d": 1.50}')


def test_the_other_envelopes_print_what_there_is_as_their_source_does() -> None:
    for envelope in set(Envelope) - CONNECT_ENVELOPES:
        encode = compile_encoder(PRICES, FeedOptions(envelope=envelope)).encode
        assert b"1.50" in encode(row(PRICES, d=Decimal("1.50")), AT)[0]
        assert b"1.50" not in encode(deletion(PRICES, Decimal("1.5")), AT)[0]

"""A row and its deletion have one key in the envelopes whose sinks find the row by it."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.changefeed.tables import deletion, row, table
from tests.unit.rows.strategies import tables_with_rows
from tidegate.changefeed.definition.options import Envelope, FeedOptions, Format
from tidegate.changefeed.encoding.encoder import compile_encoder
from tidegate.changefeed.encoding.envelopes.registry import FORMS
from tidegate.errors import RowError
from tidegate.hlc import Timestamp
from tidegate.rows import TableCodec, TableDescriptor
from tidegate.rows.types import Kind, SqlType

AT = Timestamp(1, 2)
STRING = SqlType(Kind.STRING)
STRINGS = SqlType(Kind.ARRAY, element=STRING)
NAMED = table("named", {"a": SqlType(Kind.INT), "s": STRING, "l": STRINGS}, key=("a", "s", "l"))
DECIMAL = SqlType(Kind.DECIMAL)
FLOAT = SqlType(Kind.FLOAT)
DECIMALS = SqlType(Kind.ARRAY, element=DECIMAL)
PRICES = table("prices", {"d": DECIMAL}, key=("d",))
OURS = [form.envelope for form in FORMS if form.for_sinks]


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
    for envelope in set(Envelope) - set(OURS):
        encode = compile_encoder(PRICES, FeedOptions(envelope=envelope)).encode
        assert b"1.50" in encode(row(PRICES, d=Decimal("1.50")), AT)[0]
        assert b"1.50" not in encode(deletion(PRICES, Decimal("1.5")), AT)[0]


STRICT = [
    *(FeedOptions(envelope=envelope) for envelope in OURS),
    *(FeedOptions(envelope=envelope, connect_schema=True) for envelope in OURS),
    *(
        FeedOptions(format=Format.AVRO, envelope=envelope)
        for envelope in Envelope
        if envelope is not Envelope.ROW
    ),
]


def told(options: FeedOptions) -> str:
    return f"{options.format.value}-{options.envelope.value}{'-schema' if options.connect_schema else ''}"


@pytest.mark.parametrize("options", STRICT, ids=told)
def test_keys_whose_text_is_not_utf8_are_refused_where_they_would_become_one(options: FeedOptions) -> None:
    encode = compile_encoder(NAMED, options).encode
    encode(row(NAMED, a=1, s="é", l=("\ufffd", None)), AT)
    for column, datums in (("s", {"s": "x\udcff", "l": ()}), ("l", {"s": "é", "l": (None, "\udcfe")})):
        whole = row(NAMED, a=1, **datums)
        for version in (whole, deletion(NAMED, *whole.key)):
            with pytest.raises(RowError, match=f"table named, column {column}: its text is not UTF-8"):
                encode(version, AT)


@pytest.mark.parametrize("options", STRICT, ids=told)
def test_a_key_column_whose_text_is_not_utf8_is_refused(options: FeedOptions) -> None:
    people = table("people", {"a": SqlType(Kind.INT), "s": STRING}, key=("a",))
    encode = compile_encoder(people, replace(options, key_column="s", unordered=True)).encode
    with pytest.raises(RowError, match="table people, column s: its text is not UTF-8"):
        encode(row(people, a=1, s="\udcff"), AT)


@pytest.mark.parametrize("options", STRICT, ids=told)
def test_text_that_is_not_utf8_stays_in_values(options: FeedOptions) -> None:
    people = table("people", {"a": SqlType(Kind.INT), "s": STRING}, key=("a",))
    _, value = compile_encoder(people, options).encode(row(people, a=1, s="x\udcff"), AT)
    if options.envelope is not Envelope.KEY_ONLY:
        assert value is not None
        assert b"\xef\xbf\xbd" in value or b"\\ufffd" in value


def test_cockroachdbs_json_keys_stay_as_they_are() -> None:
    encode = compile_encoder(NAMED, FeedOptions()).encode
    assert encode(row(NAMED, a=1, s="x\udcff", l=()), AT)[0] == rb'[1, "x\ufffd", []]'

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
from tidegate.errors import RowError, UnsupportedTable
from tidegate.hlc import Timestamp
from tidegate.rows import TableCodec, TableDescriptor
from tidegate.rows.types import Datum, Interval, Kind, SqlType

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


TIMES: dict[str, tuple[SqlType, Datum, Datum]] = {
    "timestamp": (SqlType(Kind.TIMESTAMP), 1_000, 1_001),
    "timestamptz": (SqlType(Kind.TIMESTAMPTZ), -1_000, -1_001),
    "interval": (SqlType(Kind.INTERVAL), Interval(1, -2, 3_000), Interval(1, -2, 3_001)),
    "float4": (SqlType(Kind.FLOAT, width=32), 0.5, 0.1),
}
ALL = [
    *STRICT,
    *(FeedOptions(envelope=envelope) for envelope in Envelope if envelope not in (*OURS, Envelope.ROW)),
]


@pytest.mark.parametrize("is_array", [False, True], ids=["column", "items"])
@pytest.mark.parametrize("kind", TIMES)
@pytest.mark.parametrize("options", ALL, ids=told)
def test_keys_that_differ_are_written_differently_or_refused(
    options: FeedOptions, kind: str, is_array: bool
) -> None:
    of, whole, finer = TIMES[kind]
    if is_array:
        of, whole, finer = SqlType(Kind.ARRAY, element=of), (whole,), (None, finer)
    many = table("many", {"a": SqlType(Kind.INT), "k": of}, key=("a", "k"))
    encode = compile_encoder(many, options).encode
    keys = {encode(version, AT)[0] for version in (row(many, a=1, k=whole), deletion(many, 1, whole))}
    assert len(keys) == 1
    cut = {"interval"} | ({"float4"} if has_connect_schema(options) else set())
    if options.format is Format.AVRO:
        cut |= {"timestamp", "timestamptz"} if not has_connect_schema(options) else set()
    if has_connect_schema(options) and not is_array:
        cut.add("timestamp")
    for version in (row(many, a=1, k=finer), deletion(many, 1, finer)):
        if kind in cut:
            with pytest.raises(RowError, match="table many, column k: its value is finer than a key"):
                encode(version, AT)
        else:
            assert encode(version, AT)[0] not in keys


def has_connect_schema(options: FeedOptions) -> bool:
    return options.envelope in OURS and (options.connect_schema or options.format is Format.AVRO)


@pytest.mark.parametrize("options", ALL, ids=told)
def test_a_key_column_may_be_cut(options: FeedOptions) -> None:
    events = table("events", {"a": SqlType(Kind.INT), "t": SqlType(Kind.INTERVAL)}, key=("a",))
    encode = compile_encoder(events, replace(options, key_column="t", unordered=True)).encode
    assert encode(row(events, a=1, t=Interval(0, 0, 1)), AT)


@pytest.mark.parametrize("options", ALL, ids=told)
@pytest.mark.parametrize("is_array", [False, True], ids=["column", "items"])
def test_sinks_are_given_no_collated_strings_to_find_rows_by(options: FeedOptions, is_array: bool) -> None:
    collated = SqlType(Kind.COLLATED_STRING, locale="fr")
    of = SqlType(Kind.ARRAY, element=collated) if is_array else collated
    people = table("people", {"a": SqlType(Kind.INT), "s": of}, key=("a", "s"))
    if options.envelope in OURS:
        with pytest.raises(UnsupportedTable, match="table people, column s: a sink cannot find rows by"):
            compile_encoder(people, options)
    else:
        compile_encoder(people, options)
    compile_encoder(people, replace(options, key_column="s", unordered=True))

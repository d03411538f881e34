"""The bounds of decoders and encoders, each at its edge (docs/security.md#bounds)."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from typing import Any, Final

import pytest
from hypothesis import given

from tests.hand_log import HandTable, at
from tests.hostile.growing_inputs import nested_tuples, row_with, snapshot
from tests.hostile.write_batches import batch, delete_range, set_version
from tests.unit.changefeed.feeds import FEED, TARGET, job_records
from tidegate.changefeed.definition.definition_size import record_bytes
from tidegate.changefeed.definition.duration import parse_duration
from tidegate.changefeed.definition.extra_headers import read_extra_headers
from tidegate.changefeed.definition.feed import FIRST_EPOCH, FeedId, FeedState
from tidegate.changefeed.definition.options import FeedOptions, OnOversize
from tidegate.changefeed.definition.stored_json import DEPTH_MAX
from tidegate.changefeed.encoding.partition import partition_of
from tidegate.changefeed.lifecycle.job_records import DropRecord, JobRecord, StateRecord, read_job_record
from tidegate.changefeed.statement.cursor import read_cursor
from tidegate.changefeed.statement.definition import define_feed
from tidegate.changefeed.text.json_text import text_encoder
from tidegate.changefeed.text.row_bytes import ROW_BYTES_MAX
from tidegate.changefeed.text.unscaled import DIGITS_MAX, Unscaler
from tidegate.errors import EncodingError, ForeignRecord, MalformedEntry, RowError, StatementError
from tidegate.hlc import ZERO, Timestamp, parse_decimal
from tidegate.processor.feeds.emitter import Destination, Emission, Emitter
from tidegate.raftlog.decode import decode_entry
from tidegate.raftlog.encode import encode_entry, encode_key
from tidegate.raftlog.entry import Generation, Parent, RaftIndex, RangeId, Snapshot, WriteValue
from tidegate.raftlog.write_batch import with_values
from tidegate.ranges.version import Version
from tidegate.rows import (
    Column,
    EnumMember,
    Family,
    Json,
    KeyPart,
    Kind,
    Row,
    SqlType,
    TableCodec,
    TableDescriptor,
)
from tidegate.rows.keyside.bit_strings import MAX_BITS, decode_bits_asc
from tidegate.rows.valueside.arrays import MAX_ELEMENTS, decode_array, encode_array
from tidegate.rows.valueside.jsonb import MAX_NESTING, decode_jsonb, encode_jsonb
from tidegate.rows.valueside.tags import WireType, skip_datum
from tidegate.rows.valueside.varints import decode_length, decode_uvarint, decode_zigzag, encode_zigzag
from tidegate.spans import Span

_NOW: Final = 1_700_000_000_000_000_000
_MANY_DIGITS: Final = "1" * 5_000
_NUMBERS: Final = SqlType(Kind.ARRAY, element=SqlType(Kind.DECIMAL))

# ---- values ----


def test_an_integer_has_at_most_ten_bytes() -> None:
    assert decode_uvarint(b"\xff" * 9 + b"\x01", 0) == (2**64 - 1, 10)
    for beyond in (b"\xff" * 9 + b"\x02", b"\x80" * 10 + b"\x00", b"\xff" * 200_000 + b"\x01"):
        with pytest.raises(EncodingError, match="64 bits"):
            decode_uvarint(beyond, 0)


def test_a_length_has_at_most_ten_bytes() -> None:
    assert decode_length(b"\x81" + b"\xff" * 8 + b"\x7f", 0) == (2**64 - 1, 10)
    for beyond in (b"\x80" * 10 + b"\x00", b"\xff" * 200_000 + b"\x01"):
        with pytest.raises(EncodingError, match="more than ten bytes"):
            decode_length(beyond, 0)
    with pytest.raises(EncodingError, match="64 bits"):
        decode_length(b"\x82" + b"\xff" * 8 + b"\x7f", 0)


@pytest.mark.parametrize("depth", [1, 400, 2_000, 100_000])
def test_a_tuple_of_a_dropped_column_is_passed_over_however_deep_it_is(depth: int) -> None:
    body = b"\x01" + b"\x0f\x10\x01" * depth + b"\x01"
    assert skip_datum(body + b"\x13", 0, WireType.TUPLE) == len(body)


def test_a_row_is_read_beside_nested_tuples() -> None:
    id_ = Column(1, "id", SqlType(Kind.INT, 64), nullable=False)
    table = TableDescriptor(104, "t", 1, Timestamp(1), (id_,), (KeyPart(1),), (Family(0, "primary", (1,)),))
    row = TableCodec(table).decode(*row_with(nested_tuples(2_000)))
    assert row is not None
    assert row.key == (1,)


@pytest.mark.parametrize("seed", range(20))
def test_nulls_of_an_array_come_back_where_they_were(seed: int) -> None:
    chance = random.Random(seed)
    elements = tuple(chance.choice((None, None, 7, -1)) for _ in range(chance.randrange(70)))
    payload = encode_array(elements, WireType.INT, encode_zigzag)
    assert decode_array(payload, WireType.INT, decode_zigzag) == elements


def test_an_array_has_a_bounded_number_of_elements() -> None:
    full = (None,) * MAX_ELEMENTS
    payload = encode_array(full, WireType.INT, encode_zigzag)
    assert decode_array(payload, WireType.INT, decode_zigzag) == full
    beyond = encode_array((*full, None), WireType.INT, encode_zigzag)
    with pytest.raises(EncodingError, match=f"announces {MAX_ELEMENTS + 1} elements"):
        decode_array(beyond, WireType.INT, decode_zigzag)


def _nested(depth: int) -> Any:
    value: Any = []
    for _ in range(depth):
        value = [value]
    return value


def test_a_json_document_is_nested_up_to_a_bound() -> None:
    deepest = _nested(MAX_NESTING)
    assert decode_jsonb(encode_jsonb(deepest)) == deepest
    levels = MAX_NESTING + 1
    assert text_encoder(SqlType(Kind.JSONB))(Json(deepest)) == "[" * levels + "]" * levels
    with pytest.raises(EncodingError, match="nested too deeply"):
        encode_jsonb([deepest])
    payload = encode_jsonb(deepest)
    payload = b"\x80\x00\x00\x01" + (0xD0000000 | len(payload)).to_bytes(4, "big") + payload
    with pytest.raises(EncodingError, match="nested too deeply"):
        decode_jsonb(payload)


def test_zeros_of_a_json_document_are_printed_up_to_a_bound() -> None:
    zeros: list[Any] = [Decimal("0E-1999")] * 30_000
    assert decode_jsonb(encode_jsonb(zeros)) == zeros
    with pytest.raises(EncodingError, match="zeros of 119940000 decimal places"):
        decode_jsonb(encode_jsonb(zeros * 2))


def test_a_bit_string_of_a_key_is_read_up_to_a_bound() -> None:
    words = MAX_BITS // 64
    bits, _ = decode_bits_asc(b"\x3a" + b"\x88" * words + b"\x00" + b"\xc8", 0)
    assert len(bits) == MAX_BITS
    with pytest.raises(EncodingError, match="is too long"):
        decode_bits_asc(b"\x3a" + b"\x88" * (words + 1) + b"\x00" + b"\xc8", 0)


# ---- what rows become ----


def test_an_array_is_printed_up_to_a_bound_of_bytes() -> None:
    zeros = (Decimal("0E-1999"),) * (ROW_BYTES_MAX // 2_001 + 1)
    assert len(text_encoder(_NUMBERS)(zeros[:1_000])) == 1_000 * 2_003
    with pytest.raises(RowError, match="the row is too large"):
        text_encoder(_NUMBERS)(zeros)


def test_an_array_of_long_labels_ends_before_its_text_is_made() -> None:
    labels = SqlType(Kind.ARRAY, element=SqlType(Kind.ENUM, members=(EnumMember(b"\x80", "x" * 100_000),)))
    with pytest.raises(RowError, match="the row is too large"):
        text_encoder(labels)(("x" * 100_000,) * 1_000_000)


def test_a_decimal_is_written_with_a_bounded_number_of_digits() -> None:
    for cuts_zeros in (False, True):
        unscaled = Unscaler(1_000_000, 0, cuts_zeros=cuts_zeros)
        assert unscaled(Decimal(f"1E+{DIGITS_MAX - 1}")) == 10 ** (DIGITS_MAX - 1)
        assert unscaled(Decimal(f"1E+{DIGITS_MAX}")) is None
        assert unscaled(Decimal("1E+999000")) is None
        assert unscaled(Decimal("0E+999000")) == 0


@pytest.mark.parametrize("oversize", OnOversize)
def test_a_row_is_written_up_to_a_bound_of_bytes(oversize: OnOversize) -> None:
    table = HandTable.of(104, "t", "id INT, a BYTES, b BYTES")
    limit = 1_000 if oversize is OnOversize.KEY_ONLY else 0
    emitter = Emitter(
        FeedOptions(on_oversize=oversize, max_row_bytes=limit), ZERO, {104: Destination("t", 1)}
    )
    version = Version(b"k", at(5), b"", None, False, RangeId(1), RaftIndex(1), 0)
    large = b"x" * (ROW_BYTES_MAX // 4)
    into = Emission([], [])
    error = emitter.emit([version], [Row(table.descriptor, (1,), (1, large, large))], into)
    if oversize is OnOversize.KEY_ONLY:
        assert error is None
        assert [record.value for record in into.records] == [b""]
    else:
        assert "the row is too large" in str(error)
        assert not into.records


@pytest.mark.parametrize("seed", range(200))
def test_long_decimals_are_the_same_numbers_as_short_ones(seed: int) -> None:
    chance = random.Random(seed)
    digits = tuple(chance.choice((0, 1, 9)) for _ in range(chance.randrange(1, 20)))
    value = Decimal((chance.randrange(2), digits, chance.randrange(-12, 12)))
    scale = chance.randrange(0, 8)
    for cuts_zeros in (False, True):
        short, long = (Unscaler(precision, scale, cuts_zeros=cuts_zeros) for precision in (60, 65))
        assert short(value) == long(value), (value, scale)


def test_long_keys_are_not_remembered() -> None:
    from tidegate.changefeed.encoding import partition

    partition_of(b"k" * 1_025, 7)
    before = partition._remembered.cache_info()
    partition_of(b"k" * 1_025, 7)
    assert partition._remembered.cache_info() == before


# ---- entries ----


@pytest.mark.parametrize("parent", [0, -1, -(2**63)])
def test_ids_of_parents_are_above_zero(parent: int) -> None:
    entry = snapshot(parents=(Parent(RangeId(parent), Generation(1), RaftIndex(5)),))
    with pytest.raises(MalformedEntry, match=f"parent is range {parent}"):
        decode_entry(encode_key(RangeId(1)), encode_entry(entry))


def test_a_snapshot_has_a_bounded_number_of_chunks() -> None:
    most = decode_entry(encode_key(RangeId(1)), encode_entry(snapshot(chunk=1_023, chunks=1_024)))
    assert isinstance(most, Snapshot)
    for chunks in (1_025, 2**31 - 1):
        with pytest.raises(MalformedEntry, match=f"a snapshot of {chunks} chunks: at most 1,024 are read"):
            decode_entry(encode_key(RangeId(1)), encode_entry(snapshot(chunk=0, chunks=chunks)))


@pytest.mark.parametrize("span", [Span(b"z" * 300_000, b"a" * 300_000), Span(b"k" * 300_000, b"k" * 300_000)])
def test_a_span_without_keys_is_refused_by_a_short_sentence(span: Span) -> None:
    entry = snapshot(span=span)
    with pytest.raises(MalformedEntry, match="span") as refused:
        decode_entry(encode_key(RangeId(1)), encode_entry(entry))
    assert len(str(refused.value)) < 300


@pytest.mark.parametrize("seed", range(50))
def test_ranges_of_a_batch_delete_what_was_written_before_them(seed: int) -> None:
    chance = random.Random(seed)
    keys = [b"%c" % chance.randrange(97, 105) for _ in range(30)]
    records, kept = [], dict[bytes, bytes]()
    for number, key in enumerate(keys):
        if chance.random() < 0.6:
            value = b"\0\0\0\0\x03%d" % number
            records.append(set_version(key, Timestamp(5), value))
            kept[key] = value
        else:
            end = b"%c" % chance.randrange(97, 106)
            records.append(delete_range(key, end))
            kept = {known: value for known, value in kept.items() if not key <= known < end}
    ops = tuple(WriteValue(key, Timestamp(5), None) for key in sorted(set(keys)))
    filled = with_values(ops, batch(*records))
    assert {op.key: op.value for op in filled if isinstance(op, WriteValue) and op.value is not None} == kept


# ---- texts and messages ----


def _define(options: str, tables: str = "t") -> None:
    define_feed(f"CREATE CHANGEFEED FOR {tables} INTO 'kafka://h:1' WITH {options}", FeedId("f1"), _NOW)


def test_a_statement_of_many_tables_is_refused_before_it_is_parsed() -> None:
    with pytest.raises(StatementError, match="20000 commas"):
        _define("diff", tables="a," * 20_000 + "a")


@pytest.mark.parametrize(
    "text", [f"t {'x' * 5_000}INTO x'kafka://h:1'", f"t INTO{'x' * 5_000} 'kafka://h:1'"]
)
def test_a_word_of_many_letters_is_refused_by_a_short_sentence(text: str) -> None:
    with pytest.raises(StatementError) as refused:
        define_feed(f"CREATE CHANGEFEED FOR {text}", FeedId("f1"), _NOW)
    assert len(str(refused.value)) < 1_000


def test_a_timestamp_of_many_digits_is_refused_by_a_short_sentence() -> None:
    for text in (_MANY_DIGITS, "9" * 20, f"{_MANY_DIGITS}.0000000000", f"x{_MANY_DIGITS}"):
        with pytest.raises(ValueError, match="HLC timestamp") as refused:
            parse_decimal(text)
        assert len(str(refused.value)) < 200
    assert parse_decimal("0" * 5_000 + "7") == Timestamp(7)
    with pytest.raises(ValueError, match="has 5001 characters"):
        parse_duration(f"{_MANY_DIGITS}s")
    with pytest.raises(StatementError, match="5000 characters"):
        read_cursor(_MANY_DIGITS, _NOW)


def test_a_definition_with_half_a_character_is_measured() -> None:
    defined = define_feed("CREATE CHANGEFEED FOR t INTO 'kafka://h:1'", FeedId("f1"), _NOW).definition
    halved = replace(defined, options=replace(defined.options, key_column="\udcff"))
    assert record_bytes(halved) > record_bytes(defined)


@pytest.mark.parametrize(("first", "second", "is_read"), [(2**20 - 1, 1, True), (2**20, 1, False)])
def test_topics_of_a_feed_have_a_bounded_number_of_partitions_together(
    first: int, second: int, is_read: bool
) -> None:
    """A marker has a record for each of them."""
    targets = replace(TARGET, partitions=first), replace(TARGET, partitions=second)
    record = StateRecord(FEED, FIRST_EPOCH, FeedState.RUNNING, Timestamp(1), targets)
    if is_read:
        assert read_job_record(record.key, record.to_bytes()) == record
        return
    with pytest.raises(ForeignRecord, match="more than 1048576 partitions"):
        read_job_record(record.key, record.to_bytes())


def _called_from(depth: int, call: Callable[[], object]) -> object:
    """What the call returns from so deep in the stack."""
    return call() if depth == 0 else _called_from(depth - 1, call)


@pytest.mark.parametrize("stack", [0, 500])
def test_messages_of_own_topics_are_nested_up_to_a_bound(stack: int) -> None:
    """The stack of the caller has no say in it."""
    drop = DropRecord(FEED, 1)

    def read(containers: int) -> object:
        nested = b"[" * (containers - 2) + b'{"a":1}' + b"]" * (containers - 2)
        value = drop.to_bytes()[:-1] + b',"more":' + nested + b"}"
        return _called_from(stack, lambda: read_job_record(drop.key, value))

    assert read(DEPTH_MAX) == drop
    for beyond in (DEPTH_MAX + 1, 200, 100_000):
        with pytest.raises(ForeignRecord, match="cannot be read") as refused:
            read(beyond)
        assert len(str(refused.value)) < 300
    with pytest.raises(ForeignRecord, match="more than 64 containers in containers"):
        read(DEPTH_MAX + 1)


@given(job_records)
def test_records_of_feeds_stay_far_below_that_bound(record: JobRecord) -> None:
    assert _depth(json.loads(record.to_bytes())) <= 5


def _depth(value: object) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if inner is None else 1 + max(map(_depth, inner), default=0)


@pytest.mark.parametrize(
    ("headers", "is_taken"),
    [
        ({f"h{number}": "x" for number in range(100)}, True),
        ({f"h{number}": "x" for number in range(101)}, False),
        ({"h" * 16_383: "x"}, True),
        ({"h" * 16_384: "x"}, False),
    ],
)
def test_headers_have_bounds_since_every_row_carries_them(headers: dict[str, str], is_taken: bool) -> None:
    if is_taken:
        assert read_extra_headers(json.dumps(headers))
        return
    with pytest.raises(StatementError, match="which every row would carry"):
        read_extra_headers(json.dumps(headers))
